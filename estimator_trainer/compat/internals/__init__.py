"""Names of TensorFlow's private modules that moved between 1.15 and 2.15, for programs that import them all the same.

Touches: modules below tensorflow.python, which get the names that have moved to others
Without it: programs that import them fail with an ImportError
For: programs under `compat run --internals` or `--tf1`

moved.ini says where each of them is now. A name that TensorFlow still has is left alone. Programs of that time also use
names that NumPy and Keras have removed since.
"""

from __future__ import annotations

import configparser
import functools
import importlib
import importlib.abc
import importlib.machinery
import pathlib
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from estimator_trainer.compat import hook

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

_ROOT = 'tensorflow.python.'
_WHOLE = '*'  # the section of modules that moved as a whole
# NumPy 1.24 removed them; they were Python's own types. NumPy 2 has a bool again, which is its scalar type.
_NUMPY = {'int': int, 'float': float, 'complex': complex, 'bool': bool, 'object': object, 'str': str, 'unicode': str}
# NumPy 2 removed these, and has them under another name.
_RENAMED = {
    **dict.fromkeys(('NaN', 'NAN'), 'nan'),
    **dict.fromkeys(('Inf', 'Infinity', 'infty', 'PINF'), 'inf'),
    **{'float_': 'float64', 'complex_': 'complex128', 'string_': 'bytes_', 'unicode_': 'str_'},
    **{'product': 'prod', 'cumproduct': 'cumprod', 'alltrue': 'all', 'sometrue': 'any'},
    **{'row_stack': 'vstack', 'trapz': 'trapezoid', 'round_': 'round'},
}


def install() -> None:
    """Puts the names where they were, as TensorFlow is imported. A second call changes nothing."""
    names = dict(table())
    if not any(isinstance(finder, _MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(_MovedModules(names.pop(_WHOLE)))  # last: TensorFlow's own module wins
    for module, moved in names.items():
        hook.after(_ROOT + module, functools.partial(_look_up, moved))
    _restore_removed()


@functools.cache
def table() -> dict[str, dict[str, str]]:
    """{module: {name: where it is now}}, all below tensorflow.python; `*` for whole modules."""
    parser = configparser.ConfigParser(delimiters=('=',), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(pathlib.Path(__file__).with_name('moved.ini').read_text(encoding='utf-8'))
    return {section: dict(parser[section]) for section in parser.sections()}


def target_of(target: str) -> Any:
    """What `module:name` names, below tensorflow.python; a module that begins with `/` is not below it."""
    module, _, name = target.partition(':')
    owner = importlib.import_module(module[1:] if module.startswith('/') else _ROOT + module)
    return functools.reduce(getattr, name.split('.'), owner) if name else owner


def _look_up(moved: dict[str, str], module: Any) -> None:
    """Lets the module find these names elsewhere when somebody asks for them."""
    own = vars(module).get('__getattr__')

    def look_up(name: str) -> Any:
        if name in moved:
            return target_of(moved[name])
        if own is not None:
            return own(name)
        raise AttributeError(f'module {module.__name__!r} has no attribute {name!r}')

    module.__getattr__ = look_up


class _MovedModules(importlib.abc.MetaPathFinder):
    def __init__(self, moved: dict[str, str]) -> None:
        self._moved = moved

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        name = fullname.removeprefix(_ROOT)
        if name == fullname or name not in self._moved:
            return None
        is_package = any(other.startswith(name + '.') for other in self._moved)
        return importlib.machinery.ModuleSpec(fullname, _Moved(self._moved[name]), is_package=is_package)


class _Moved(importlib.abc.Loader):
    """Puts the module that is meant in the place of the one that is imported."""

    def __init__(self, now: str) -> None:
        self._now = now

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        if self._now:
            sys.modules[module.__name__] = importlib.import_module(_ROOT + self._now)


def _restore_removed() -> None:
    """Puts back what old programs use of NumPy and Keras, as these packages are imported.

    Touches: names of numpy, and Layer.apply of Keras 2
    Without it: programs that use these names fail
    For: programs under `compat run --internals` or `--tf1`
    """
    hook.after('numpy', _restore_numpy)
    for keras in ('keras', 'tf_keras'):
        hook.after(f'{keras}.src.engine.base_layer', _restore_apply)


def _restore_numpy(numpy: ModuleType) -> None:
    for name, kind in _NUMPY.items():
        if name not in vars(numpy):
            setattr(numpy, name, kind)
    for name, now in _RENAMED.items():
        if name not in vars(numpy):
            setattr(numpy, name, getattr(numpy, now))


def _restore_apply(base_layer: ModuleType) -> None:
    if not hasattr(base_layer.Layer, 'apply'):
        base_layer.Layer.apply = _apply


def _apply(self: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls the layer, or the model."""
    return self(inputs, *args, **kwargs)
