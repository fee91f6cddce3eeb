"""Runs a function right before or right after a module is imported, whoever imports it and when.

Touches: sys.meta_path and ModuleSpec._initializing of importlib
Without it: whoever imports TensorFlow before compat has no tf.estimator
For: every program

    hook.after('tensorflow', lambda module: ...)

If a module is imported already, its functions are called at once. To ask for a call imports nothing. This module uses
little of the standard library and nothing else, because every import of every program that uses compat goes through it.
"""

from __future__ import annotations

import sys
from _thread import get_ident

TYPE_CHECKING = False  # `typing` takes a while to import
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

_before: dict[str, list[Callable[..., Any]]] = {}
_after: dict[str, list[Callable[..., Any]]] = {}


def before(name: str, function: Callable[..., Any]) -> None:
    """Calls function() before the module `name` is executed, or now if that is past."""
    _ask(_before, name, function)
    if name in sys.modules:
        function()


def after(name: str, function: Callable[..., Any]) -> None:
    """Calls function(module) once the module `name` has been executed, or now if that is past."""
    _ask(_after, name, function)
    if name in sys.modules and not _is_loading(sys.modules[name]):
        function(sys.modules[name])


def _ask(table: dict[str, list[Callable[..., Any]]], name: str, function: Callable[..., Any]) -> None:
    if not any(finder is _watcher for finder in sys.meta_path):
        sys.meta_path.insert(0, _watcher)
    functions = table.setdefault(name, [])
    if function not in functions:
        functions.append(function)


def _is_loading(module: Any) -> bool:
    return getattr(vars(module).get('__spec__'), '_initializing', False)


class _Watcher:
    """A finder that lets the others find, and puts a `_Loader` around what they found.

    Another copy of this module may have a watcher of its own, which asks this one: `verify` loads such a copy.
    """

    def __init__(self) -> None:
        self._searching: set[tuple[int, str]] = set()  # (thread, module)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        search = (get_ident(), fullname)
        if search in self._searching or fullname not in _before and fullname not in _after:
            return None
        self._searching.add(search)
        try:
            return self._found_by_others(fullname, path, target)
        finally:
            self._searching.discard(search)

    def _found_by_others(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            find_spec = None if finder is self else getattr(finder, 'find_spec', None)
            spec = find_spec and find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


class _Loader:
    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:  # get_source, is_package, get_resource_reader...
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        name = module.__spec__.name
        module.__spec__.loader = module.__loader__ = self._loader  # as if we had not been there
        for function in _before.get(name, ()):
            function()
        self._loader.exec_module(module)
        for function in _after.get(name, ()):
            function(sys.modules[name])  # TensorFlow puts wrappers there


_watcher = _Watcher()
