"""What the source of a job says, where what it does cannot be seen. Imports no TensorFlow."""

import functools
import inspect
import linecache
import os
import sys
from collections.abc import Callable
from typing import Any


def beside(function: Callable[..., Any]) -> str | None:
    """The source of the file that has a function, and of the modules that are loaded from the same folder. None: it is
    not known, as in a REPL."""
    code = getattr(_inner(function), '__code__', None)
    file_name = code.co_filename if code else ''
    own = ''.join(linecache.getlines(file_name))
    if not own:
        return None
    folder = os.path.dirname(os.path.abspath(file_name))
    files = {getattr(module, '__file__', None) or '' for module in list(sys.modules.values())}
    others = sorted(file for file in files if file.endswith('.py') and os.path.dirname(os.path.abspath(file)) == folder)
    return own + ''.join(''.join(linecache.getlines(file)) for file in others)


def _inner(function: Any) -> Any:
    """The function that is written somewhere: within a partial, a decorator, or an object that is called."""
    while isinstance(function, functools.partial):
        function = function.func
    if callable(function) and not inspect.isroutine(function) and not inspect.isclass(function):
        function = type(function).__call__
    try:
        return inspect.unwrap(function)
    except ValueError:  # a circle
        return function
