"""Writes module_names.txt: which names `*` and the modules of names.ini stand for.

python -m estimator_trainer.compat.tf1_names.contrib.make_module_names

`contrib.is_listed` reads that file, because it must import neither TensorFlow nor tf-slim.
"""

from __future__ import annotations
import __future__

from collections.abc import Iterator
from types import ModuleType

from estimator_trainer.compat.tf1_names import contrib

_HEAD = """\
# The names that `*` and the modules of names.ini stand for, with TensorFlow 2.21 and tf-slim 1.1, made by
# make_module_names.py. A line holds the names of a part of tf.contrib, or of a module in it.
"""


def text() -> str:
    """The file, for the TensorFlow and the tf-slim that are installed."""
    lines: dict[str, set[str]] = {}
    for part, name in _names():
        lines.setdefault(part, set()).add(name)
    return ''.join([_HEAD, *(f'{part}: {" ".join(sorted(names))}\n' for part, names in sorted(lines.items()))])


def _names() -> Iterator[tuple[str, str]]:
    """(part of tf.contrib or module in it, name)"""
    modules = []
    for part, section in contrib.places().items():
        modules += [(part, contrib.load(place, part)) for place in section.get('*', '').split()]
        named = [(f'{part}.{name}', place) for name, place in section.items() if name not in ('*', '.python')]
        modules += [(path, contrib.load(place, path)) for path, place in named if ':' not in place]
    for part, module in modules:  # all are imported by now: an import adds names to other modules
        names = _of_module(part, module)
        yield from ((path, name) for path, name in names if not contrib.is_absent(f'{path}.{name}'))


def _of_module(path: str, module: ModuleType) -> Iterator[tuple[str, str]]:
    """The names of a module, and of the modules in it that are tf-slim's or a part of TensorFlow's API."""
    for name in dir(module):
        value = getattr(module, name, None)
        if name.startswith('_') or value is None or isinstance(value, __future__._Feature):
            continue
        if not isinstance(value, ModuleType):
            yield path, name
        elif value.__name__.startswith(('tf_slim.', 'tensorflow._api.')):  # what else it imports is no name of contrib
            yield path, name
            if hasattr(module, '__path__'):  # a package; what its files import is listed once, where it lies
                yield from _of_module(f'{path}.{name}', value)


def main() -> None:
    contrib.MODULE_NAMES.write_text(text(), encoding='utf-8')


if __name__ == '__main__':
    main()
