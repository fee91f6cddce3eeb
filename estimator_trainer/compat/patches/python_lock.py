"""Lets other Python threads run while TensorFlow waits for other tasks.

Touches: TFE_EnableCollectiveOps, TFE_WaitAtBarrier and TFE_InsertConfigKeyValue in tensorflow.python.pywrap_tfe
Without it: a task that waits for others sees no signal and writes no log line, for up to an hour
For: the trainer

TensorFlow's bindings hold Python's global lock while they connect a MultiWorkerMirroredStrategy, wait at a barrier or
tell the others something. If a worker never comes, no thread sees a signal or writes a log line for an hour. This
module calls the same C functions through ctypes, which releases the lock.
"""

import ctypes
import os

import tensorflow as tf
from tensorflow.python import pywrap_tfe

_LIBRARY = 'libtensorflow_cc.so.2'
_STATUS = ctypes.c_void_p
_WAITING = {  # what follows the context and precedes the status
    'TFE_EnableCollectiveOps': (ctypes.c_char_p, ctypes.c_size_t),
    'TFE_WaitAtBarrier': (ctypes.c_char_p, ctypes.c_int64),
    'TFE_InsertConfigKeyValue': (ctypes.c_char_p, ctypes.c_char_p),
}


def install() -> bool:
    """Replaces the bindings that wait. Returns whether it could: a TensorFlow that is built in another
    way keeps its own. A second call changes nothing."""
    try:
        library = ctypes.CDLL(os.path.join(tf.sysconfig.get_lib(), _LIBRARY))
        calls = {name: _raising(library, getattr(library, name), arguments) for name, arguments in _WAITING.items()}
    except (OSError, AttributeError):
        return False
    enable, wait, insert = calls.values()
    pywrap_tfe.TFE_EnableCollectiveOps = lambda context, proto: enable(context, proto, len(proto))
    pywrap_tfe.TFE_WaitAtBarrier = lambda context, barrier, timeout_ms: wait(context, barrier.encode(), timeout_ms)
    pywrap_tfe.TFE_InsertConfigKeyValue = lambda context, key, value: insert(context, key.encode(), value.encode())
    return True


def _raising(library, function, arguments):
    """`function` of the C API as (context, *arguments); its status is raised."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    library.TF_NewStatus.restype, library.TF_Message.restype = _STATUS, ctypes.c_char_p
    for name in ('TF_GetCode', 'TF_Message', 'TF_DeleteStatus'):
        getattr(library, name).argtypes = (_STATUS,)
    function.restype, function.argtypes = None, (ctypes.c_void_p, *arguments, _STATUS)

    def call(context, *values):
        status = library.TF_NewStatus()
        try:
            function(pointer(context, None), *values, status)
            code = library.TF_GetCode(status)
            if code:
                message = library.TF_Message(status).decode(errors='replace')
                raise tf.compat.v1.errors.exception_type_from_error_code(code)(None, None, message)
        finally:
            library.TF_DeleteStatus(status)

    return call
