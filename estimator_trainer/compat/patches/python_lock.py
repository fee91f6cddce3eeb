"""Lets other Python threads run while TensorFlow waits for other tasks.

Touches: TFE_EnableCollectiveOps, TFE_WaitAtBarrier and TFE_InsertConfigKeyValue in tensorflow.python.pywrap_tfe
Without it: a task that waits for others sees no signal and writes no log line, for up to an hour
For: the trainer

TensorFlow's bindings hold Python's global lock while they connect a MultiWorkerMirroredStrategy, wait at a barrier or
tell the others something. If a worker never comes, no thread sees a signal or writes a log line for an hour. This
module calls the same functions of TensorFlow's C API through ctypes, which releases the lock.

For that it needs the C context that belongs to Python's. It is taken only from a capsule whose name is known here:
none up to TensorFlow 2.21, "TFE_Context" from 2.22 on. Where the context comes in another form, or the C library has
another name or lacks a function, TensorFlow's own binding is called. It works as well, holding the lock, and one line
of the log says so.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_trainer.compat import lacks

_LIBRARY = 'libtensorflow_cc.so.2'
_CAPSULES = (None, b'TFE_Context')
_STATUS = ctypes.c_void_p
_WAITING: dict[
    str, tuple[tuple[Any, ...], Callable[..., Any]]
] = {  # what follows the context and precedes the status, and how the bindings' arguments become that
    'TFE_EnableCollectiveOps': ((ctypes.c_char_p, ctypes.c_size_t), lambda proto: (proto, len(proto))),
    'TFE_WaitAtBarrier': ((ctypes.c_char_p, ctypes.c_int64), lambda name, timeout_ms: (name.encode(), timeout_ms)),
    'TFE_InsertConfigKeyValue': ((ctypes.c_char_p, ctypes.c_char_p), lambda key, text: (key.encode(), text.encode())),
}


def install() -> bool:
    """Replaces the bindings that wait. Returns whether it could. A second call changes nothing."""
    with lacks.or_without():
        from tensorflow.python import pywrap_tfe

        bindings = {name: getattr(pywrap_tfe, name) for name in _WAITING}
        if any(hasattr(binding, '__wrapped__') for binding in bindings.values()):
            return True
        try:
            library = ctypes.CDLL(os.path.join(tf.sysconfig.get_lib(), _LIBRARY))
            calls = {name: _raising(library, getattr(library, name), types) for name, (types, _) in _WAITING.items()}
        except (OSError, AttributeError) as error:
            lacks.say_without(f'TensorFlow {tf.__version__} is built in another way ({error})', 'python_lock')
            return False
        for name, binding in bindings.items():
            setattr(pywrap_tfe, name, _without_lock(binding, calls[name], _WAITING[name][1]))
        return True
    return False


def _without_lock(
    binding: Callable[..., Any], call: Callable[..., Any], converted: Callable[..., Any]
) -> Callable[..., Any]:
    """Calls the C function in place of the binding, if it knows the form of the context."""

    @functools.wraps(binding)
    def waiting(context: Any, *arguments: Any) -> Any:
        pointer = _pointer(context)
        if pointer is None:
            lacks.say_without(f'TensorFlow {tf.__version__} has its context in another form', 'python_lock')
            return binding(context, *arguments)
        return call(pointer, *converted(*arguments))

    return waiting


def _pointer(context: Any) -> int | None:
    """The C context; None: it comes in a form that is not known here."""
    is_valid, get = ctypes.pythonapi.PyCapsule_IsValid, ctypes.pythonapi.PyCapsule_GetPointer
    is_valid.argtypes = get.argtypes = (ctypes.py_object, ctypes.c_char_p)
    is_valid.restype, get.restype = ctypes.c_int, ctypes.c_void_p
    return next((get(context, name) for name in _CAPSULES if is_valid(context, name)), None)


def _raising(library: ctypes.CDLL, function: Any, arguments: tuple[Any, ...]) -> Callable[..., Any]:
    """`function` of the C API as (pointer to the context, *arguments); its status is raised."""
    library.TF_NewStatus.restype, library.TF_Message.restype = _STATUS, ctypes.c_char_p
    for name in ('TF_GetCode', 'TF_Message', 'TF_DeleteStatus'):
        getattr(library, name).argtypes = (_STATUS,)
    function.restype, function.argtypes = None, (ctypes.c_void_p, *arguments, _STATUS)

    def call(pointer: int, *values: Any) -> None:
        status = library.TF_NewStatus()
        try:
            function(pointer, *values, status)
            code = library.TF_GetCode(status)
            if code:
                message = library.TF_Message(status).decode(errors='replace')
                raise tf.compat.v1.errors.exception_type_from_error_code(code)(None, None, message)
        finally:
            library.TF_DeleteStatus(status)

    return call
