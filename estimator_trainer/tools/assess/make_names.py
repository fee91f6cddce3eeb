"""Writes names.txt: the public names of the TensorFlow that is installed here, and its modules.

python -m estimator_trainer.tools.assess.make_names

Reads the files of the packages with `ast` and imports none of them.
"""

import ast
import importlib.util
import pathlib
from collections.abc import Iterator

from estimator_trainer.tools.assess.tf_names import FILE
from estimator_trainer.tools.assess.uses import PRIVATE

_HEAD = """\
# The names of TensorFlow 2.21 and tensorflow-estimator 2.15, made by make_names.py. A line holds the names of a
# module. `both` and `2`: `import tensorflow as tf` has them. `1`: only `import tensorflow.compat.v1 as tf` has
# them. `private`: modules in tensorflow that have no public names.
"""


def main() -> None:
    tensorflow, estimator = _folder('tensorflow'), _folder('tensorflow_estimator')
    found = {}
    for version, api in (('1', '_api/v2/compat/v1'), ('2', '_api/v2')):
        found[version] = set(_public(tensorflow / api, 'tf'))
        folder = estimator / f'python/estimator/api/_v{version}/estimator'
        found[version] |= set(_public(folder, 'tf.estimator')) | {('tf', 'estimator')}
    found['1'] |= set(_public(_folder('tf_keras') / 'api/_v1/keras/__internal__/legacy/layers', 'tf.layers'))
    found['2'] |= set(_imported(tensorflow / '__init__.py', 'tf'))  # tensorflow's own top level stands there
    lines: dict[tuple[str, str], list[str]] = {}
    for module, name in sorted(found['1'] | found['2']):
        versions = [version for version in '12' if (module, name) in found[version]]
        lines.setdefault((module, 'both' if len(versions) == 2 else versions[0]), []).append(name)
    text = [_HEAD, *(f'{kind} {module}: {" ".join(names)}\n' for (module, kind), names in sorted(lines.items()))]
    files = (path for root in PRIVATE for suffix in ('py', 'so') for path in (tensorflow / root).rglob(f'*.{suffix}'))
    modules: dict[str, set[str]] = {}
    for path in files:
        module = '.'.join(('tensorflow', *path.parent.relative_to(tensorflow).parts))
        modules.setdefault(module, set()).add(path.name.partition('.')[0])
    for module, members in sorted(modules.items()):
        text.append(f'private {module}: {" ".join(sorted(members - {"__init__"}))}\n')
    FILE.write_text(''.join(text), encoding='utf-8')


def _folder(package: str) -> pathlib.Path:
    return pathlib.Path(importlib.util.find_spec(package).origin).parent


def _public(folder: pathlib.Path, module: str) -> Iterator[tuple[str, str]]:
    """(module, name) of what the generated __init__.py files below a folder import."""
    for path in folder.rglob('__init__.py'):
        parts = path.parent.relative_to(folder).parts
        if parts[:1] in (('compat',), ('__internal__',), ('keras',)) or '__operators__' in parts:
            continue
        if parts:
            yield '.'.join((module, *parts[:-1])), parts[-1]
        yield from _imported(path, '.'.join((module, *parts)))


def _imported(path: pathlib.Path, module: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module.startswith(('tensorflow', 'tf_keras')):
            names = [alias.asname or alias.name for alias in node.names]
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):  # modules that are loaded lazily
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.Assign):  # _current_module.app.flags = flags
            parts = [ast.unparse(target).split('.') for target in node.targets if isinstance(target, ast.Attribute)]
            yield from (('.'.join((module, *part[1:-1])), part[-1]) for part in parts if part[-1].isidentifier())
        yield from ((module, name) for name in names if not name.startswith('_'))


if __name__ == '__main__':
    main()
