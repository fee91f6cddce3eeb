"""Finds out from the source of a job's module whether it imports TensorFlow at its top. Runs no code of the job."""

import ast
import collections
import importlib.machinery
import os
import site
import sysconfig
from collections.abc import Iterator

HEAVY = ('tensorflow', 'tensorflow_datasets', 'tensorflow_estimator', 'tf_keras', 'keras')
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_INSTALLED = {sysconfig.get_path(name) for name in ('stdlib', 'purelib', 'platlib')} | {*site.getsitepackages()}
_MOST_MODULES = 500  # that are read; a job has a few, and this package some 200


def brings_tensorflow(module: str) -> bool:
    """Whether importing a module imports TensorFlow, according to its source.

    The source of the modules that it imports is read too, unless they belong to installed packages. The answer is False
    if the source does not say, for example because the module is missing.
    """
    seen: set[str] = set()
    waiting = collections.deque([module] if all(part.isidentifier() for part in module.split('.')) else [])
    while waiting and len(seen) < _MOST_MODULES:  # those nearest to the job first
        name = waiting.popleft()
        if name.partition('.')[0] in HEAVY:
            return True
        for part in _with_parents(name):
            if part not in seen:
                seen.add(part)
                waiting += _imports(part)
    return False


def _with_parents(name: str) -> list[str]:
    parts = name.split('.')
    return ['.'.join(parts[:count]) for count in range(1, len(parts) + 1)]


def _imports(name: str) -> list[str]:
    spec = _spec(name)
    path = spec and spec.origin
    if not spec or not path or not path.endswith('.py') or _is_installed(path):
        return []
    try:
        with open(path, 'rb') as file:
            tree = ast.parse(file.read(), path)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []
    package = name if spec.submodule_search_locations is not None else name.rpartition('.')[0]
    return [imported for statement in _run_at_import(tree.body) for imported in _names(statement, package)]


def _spec(name: str) -> importlib.machinery.ModuleSpec | None:
    """The spec of a module, which is found without importing the packages that it is in."""
    path: list[str] | None = None
    spec: importlib.machinery.ModuleSpec | None = None
    for part in _with_parents(name):
        try:
            spec = importlib.machinery.PathFinder.find_spec(part, path)
        except (ImportError, ValueError):
            return None
        except KeyError:  # a folder without __init__.py within another one: its parent would have to be imported
            spec, path = None, [os.path.join(folder, part.rpartition('.')[2]) for folder in path or ()]
            continue
        if spec is None:
            return None
        path = spec.submodule_search_locations and list(spec.submodule_search_locations)
    return spec


def _is_installed(path: str) -> bool:
    path = os.path.abspath(path)
    if path.startswith(os.path.join(_OURS, '')):
        return False
    return any(path.startswith(os.path.join(folder, '')) for folder in _INSTALLED if folder)


def _run_at_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when a module is imported, which leaves out those of functions and for type checkers."""
    for statement in body:
        if isinstance(statement, ast.If) and 'TYPE_CHECKING' in ast.unparse(statement.test):
            yield from _run_at_import(statement.orelse)
            continue
        yield statement
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        for part in ('body', 'orelse', 'finalbody'):
            yield from _run_at_import(getattr(statement, part, None) or [])
        for handler in getattr(statement, 'handlers', ()):
            yield from _run_at_import(handler.body)


def _names(statement: ast.stmt, package: str) -> list[str]:
    """The modules that a statement imports, or may import. `package` is the package of the module that it is in."""
    if isinstance(statement, ast.Import):
        return [alias.name for alias in statement.names]
    if not isinstance(statement, ast.ImportFrom):
        return []
    base = statement.module or ''
    if statement.level:
        parts = package.split('.')
        above = parts[: len(parts) - statement.level + 1]
        base = '.'.join(filter(None, (*above, base)))
    return [base, *(f'{base}.{alias.name}' for alias in statement.names if alias.name != '*')] if base else []
