"""Lets signals reach what the job's Python functions start from TensorFlow's threads.

A thread inherits the signals that are blocked where it is made, and so does every process that it starts,
through exec as well. TensorFlow makes threads while the lifeline has signals blocked (`Lifeline.shielded`),
and calls the job's Python functions in them (tf.numpy_function, tf.py_function, Dataset.from_generator): a
helper process that is started there would never see SIGTERM.
"""

import signal
import threading

from tensorflow.python.ops import script_ops

_done = threading.local()


def install(signals) -> None:
    """From here on a thread unblocks `signals` before it first calls a Python function of a graph. A second
    call changes nothing."""
    call = script_ops.FuncRegistry.__call__
    if getattr(call, 'unblocks', False):
        return

    def unblocked(registry, *args):
        if not hasattr(_done, 'here'):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
            _done.here = True
        return call(registry, *args)

    unblocked.unblocks = True
    script_ops.FuncRegistry.__call__ = unblocked
