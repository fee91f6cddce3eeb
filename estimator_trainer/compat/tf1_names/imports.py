"""What `import tensorflow` gives to a module that means TF 1.

Touches: builtins.__import__, and modules below tensorflow.python
Without it: `import tensorflow` means TensorFlow 2 in every module
For: programs under `compat run --tf1`

A module's import statement calls `builtins.__import__` with the module's globals; that is where it is decided.
`importlib.import_module` does not say who asks: it gives TF 2.
"""

import builtins
import functools
import importlib
import types

from estimator_trainer.compat.tf1_names import surface

# Parts of TensorFlow that are no API: the same for TF 1 and TF 2.
_INTERNAL = frozenset(('python', 'core', 'compat', 'compiler', 'lite', 'tools', '_api'))

_installed = False


def replace(rule) -> None:
    """From here on the modules of which the rule says so get TF 1. The first rule of a process stays."""
    global _installed
    if _installed:
        return
    _installed = True
    plain = builtins.__import__

    @functools.wraps(plain)
    def import_(name, globals=None, locals=None, fromlist=(), level=0):
        if level or name.partition('.')[0] != 'tensorflow' or not rule.means_tf1(globals):
            return plain(name, globals, locals, fromlist, level)
        plain('tensorflow')
        parts = name.split('.')[1:]
        if parts and parts[0] in _INTERNAL:
            found = plain(name, globals, locals, fromlist, level)
        else:
            found = _found(parts, fromlist or ())
        return found if fromlist else surface.tensorflow()

    builtins.__import__ = import_


def _found(parts, fromlist):
    """The module tensorflow.<parts>, with the names of fromlist in it.

    Raises:
        ImportError: one of them is not there; with the reason, which `from … import …` would hide.
    """
    module = surface.tensorflow()
    for position, part in enumerate(parts):
        module = _member(module, part, '.'.join(['tensorflow', *parts[: position + 1]]))
    for name in fromlist:
        if name != '*' and parts[:1] == ['contrib']:
            _member(module, name, '.'.join(['tensorflow', *parts, name]))
    return module


def _member(module, name, full_name):
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
