"""Mends what TensorFlow does to Python functions of a job that it calls from its own threads
(tf.numpy_function, tf.py_function, Dataset.from_generator) and that start helper processes there.

Touches: FuncRegistry.__call__ in tensorflow.python.ops.script_ops
Without it: helper processes that a function of the job starts never see SIGTERM, and a forked child never ends
For: the trainer

A thread inherits the signals that are blocked where it is made, and so does every process that it starts,
through exec as well. TensorFlow makes threads while the watchdog has signals blocked (`Watchdog.shielded`):
a helper that is started there would never see SIGTERM.

A child that the function forks and that leaves by an exception would go on as one of TensorFlow's threads,
in a process that has no others, and never end.
"""

import signal
import threading

from estimator_trainer.compat import lacks
from estimator_trainer.this_process import forks

_unblocked, _failed = threading.local(), threading.Event()


def have_failed() -> bool:
    """Whether any function has raised an exception."""
    return _failed.is_set()


def install(signals) -> None:
    """From here on a thread unblocks `signals` before it first calls a function, and only the process that
    called it returns. A second call changes nothing."""
    with lacks.or_without():
        from tensorflow.python.ops import script_ops

        _mend(script_ops.FuncRegistry, signals)


def _mend(registry_class, signals) -> None:
    call = registry_class.__call__
    if getattr(call, 'mended', False):
        return

    def mended(registry, *args):
        if not hasattr(_unblocked, 'here'):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
            _unblocked.here = True
        with forks.parent_only():
            try:
                return call(registry, *args)
            except StopIteration:  # of a generator: the end of its data
                raise
            except Exception:
                _failed.set()
                raise

    mended.mended = True
    registry_class.__call__ = mended
