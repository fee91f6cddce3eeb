"""TensorFlow 1's names for programs that were written for it, on today's TensorFlow.

For the program's own modules `tensorflow` is `tensorflow.compat.v1`, with what can be had of `tf.contrib`.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import sys
import types
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from estimator_trainer.compat import hook, internals
from estimator_trainer.compat.tf1_names import contrib

if TYPE_CHECKING:
    from estimator_trainer.compat.tf1_names.version_rule import VersionRule

VERSION = '1.15.5'  # tf.__version__ there: these are the names of the last TensorFlow 1
# Parts of TensorFlow that are no API: the same for TF 1 and TF 2.
_INTERNAL = frozenset(('python', 'core', 'compat', 'compiler', 'lite', 'tools', '_api'))

_installed = False


def install(rule: VersionRule) -> None:
    """Gives TensorFlow 1 to the modules of which the rule says so. The first call in a process counts."""
    internals.install()
    hook.after('tensorflow', _turn_tf2_off)
    replace(rule)


def _turn_tf2_off(tensorflow: ModuleType) -> None:
    from estimator_trainer.compat.patches import eager_context, log_lines

    log_lines.silence_deprecations()  # nearly every line of such a program is deprecated
    eager_context.accept_options(tensorflow)
    tensorflow.compat.v1.disable_v2_behavior()


def replace(rule: VersionRule) -> None:
    """Lets `import tensorflow` give TF 1 to the modules of which the rule says so. The first rule of a process stays.

    Touches: builtins.__import__, and modules below tensorflow.python
    Without it: `import tensorflow` means TensorFlow 2 in every module
    For: programs under `compat run --tf1`

    A module's import statement calls `builtins.__import__` with the module's globals; that is where it is decided.
    `importlib.import_module` does not say who asks: it gives TF 2.
    """
    global _installed
    if _installed:
        return
    _installed = True
    plain = builtins.__import__

    @functools.wraps(plain)
    def import_(
        name: str, globals: Any = None, locals: Any = None, fromlist: Sequence[str] = (), level: int = 0
    ) -> ModuleType:
        if level or name.partition('.')[0] != 'tensorflow' or not rule.means_tf1(globals):
            return plain(name, globals, locals, fromlist, level)
        plain('tensorflow')
        parts = name.split('.')[1:]
        if parts and parts[0] in _INTERNAL:
            imported = plain(name, globals, locals, fromlist, level)
        else:
            imported = _module_with_names(parts, fromlist or ())
        return imported if fromlist else tensorflow_1()

    names: Any = builtins
    names.__import__ = import_


def _module_with_names(parts: Sequence[str], fromlist: Sequence[str]) -> Any:
    """The module tensorflow.<parts>, with the names of fromlist in it.

    Raises:
        ImportError: one of them is not there; with the reason, which `from … import …` would hide.
    """
    module = tensorflow_1()
    for position, part in enumerate(parts):
        module = _member(module, part, '.'.join(['tensorflow', *parts[: position + 1]]))
    for name in fromlist:
        if name != '*' and parts[:1] == ['contrib']:
            _member(module, name, '.'.join(['tensorflow', *parts, name]))
    return module


def _member(module: Any, name: str, full_name: str) -> Any:
    try:
        return getattr(module, name)
    except AttributeError as error:
        reason = error
    try:
        if isinstance(module, types.ModuleType) and not module.__name__.startswith('tensorflow.contrib'):
            return importlib.import_module(f'{module.__name__}.{name}')
    except ModuleNotFoundError:
        pass
    raise ImportError(str(reason), name=full_name) from None


class _TensorFlow1(types.ModuleType):
    """`tensorflow.compat.v1`, and what only TF 1 had at top level."""

    def __getattr__(self, name: str) -> Any:
        if name == '__all__':
            return sorted({name for name in dir(self) if not name.startswith('_')} - {'contrib'})
        real = sys.modules['tensorflow']
        if hasattr(real.compat.v1, name):
            return getattr(real.compat.v1, name)
        if name in ('python', 'core', 'pywrap_tensorflow'):
            return _internal(name)
        if name == 'examples':
            return _examples()
        raise AttributeError(f"tensorflow {real.__version__} has no '{name}' among its names of TensorFlow 1")

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *dir(sys.modules['tensorflow'].compat.v1)})


def _internal(name: str) -> ModuleType:
    return importlib.import_module(f'tensorflow.python.{name}' if name == 'pywrap_tensorflow' else f'tensorflow.{name}')


@functools.cache
def _examples() -> ModuleType:
    """tensorflow.examples, of which there is tutorials.mnist.input_data."""
    module = importlib.import_module(f'{contrib.__name__}.mnist_data_sets')
    for path in ('tutorials.mnist.input_data', 'tutorials.mnist', 'tutorials'):
        parent = types.ModuleType('.'.join(['tensorflow.examples', *path.split('.')[:-1]]))
        setattr(parent, path.rpartition('.')[2], module)
        module = parent
    return module


@functools.cache
def tensorflow_1() -> ModuleType:
    """The module that `import tensorflow as tf` gives to a program for TF 1, after TensorFlow has been imported."""
    real = sys.modules['tensorflow']
    module = _TensorFlow1('tensorflow', real.__doc__)
    vars(module).update(
        __file__=real.__file__, __path__=real.__path__, __version__=VERSION, VERSION=VERSION, contrib=contrib.root()
    )
    return module
