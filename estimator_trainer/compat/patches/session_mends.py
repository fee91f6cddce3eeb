"""How sessions begin and end, and what functions of Python do that they call."""

from __future__ import annotations

import functools
import os
import signal
import threading
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from estimator_trainer.compat import lacks
from estimator_trainer.this_process import forks

_POLL_SECS = 1
_unblocked, _failed = threading.local(), threading.Event()


def decide_ends(is_end: Callable[[BaseException], bool], is_saved: Callable[[BaseException | None], object]) -> None:
    """Decides how an Estimator's session ends after an exception: whether its last step is saved.

    Touches: tf.compat.v1.train.MonitoredSession.__exit__
    Without it: a session that fails closes without a checkpoint, also where only the input of the next step has failed
    For: the trainer

    Sessions ask what an exception means. The last call counts.

    Args:
        is_end: (exception) -> whether the session ends as if there had been none.
        is_saved: (exception or None) -> whether the session is saved, and the exception raised.
    """
    session_class = tf.compat.v1.train.MonitoredSession
    leave = getattr(session_class.__exit__, 'original', session_class.__exit__)

    def leave_saved(
        session: Any, exception_type: type[BaseException] | None, exception: BaseException | None, traceback: Any
    ) -> bool | None:
        if exception is not None and is_end(exception):
            leave(session, None, None, None)
            return True
        if is_saved(exception):
            leave(session, None, None, None)
            return False  # it is raised again
        return leave(session, exception_type, exception, traceback)

    session_class.__exit__ = leave_saved
    session_class.__exit__.original = leave


def look_often(module: Any) -> None:
    """Lets a worker look every second whether the chief has initialized the variables.

    Touches: SessionManager._recovery_wait_secs in tensorflow.python.training.session_manager
    Without it: with parameter servers a worker looks only every 30 s whether the chief is ready
    For: every program
    """
    from tensorflow.python.training import session_manager

    original = session_manager.SessionManager.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        with lacks.or_without():
            self._recovery_wait_secs = min(self._recovery_wait_secs, _POLL_SECS)

    session_manager.SessionManager.__init__ = init


def close_at_once(module: Any) -> None:
    """Lets a session close at once if a strategy feeds devices: turns tf.data's autotuner off there.

    Touches: multi_device_iterator_ops._create_device_dataset in tensorflow.python.data.ops
    Without it: a session that a strategy feeds may take up to a minute to close, and the others take the worker for
      lost
    For: every program

    A strategy puts a data set of its own before each device. tf.data's autotuner is on there, even if the input_fn
    turns it off. The autotuner has nothing to tune, and its thread sleeps for up to a minute. If its wake-up gets lost
    while the iterator is destroyed, the session closes late. Meanwhile the worker does not answer, and the others take
    it for lost.
    """
    from tensorflow.python.data.ops import multi_device_iterator_ops

    original = multi_device_iterator_ops._create_device_dataset

    @functools.wraps(original)
    def create(*args: Any, **kwargs: Any) -> tf.data.Dataset:
        options = tf.data.Options()
        options.autotune.enabled = False
        return original(*args, **kwargs).with_options(options)

    multi_device_iterator_ops._create_device_dataset = create


def raise_every_error() -> None:
    """Lets a session raise AbortedError and UnavailableError. Upstream takes them for a preemption, and makes a new
    session from the last checkpoint, for ever and without a word.

    Touches: monitored_session._PREEMPTION_ERRORS in tensorflow.python.training
    Without it: if a store or a service does not answer a hook or the input, training goes on from the last checkpoint
      with data that begin where the process began; if a task is lost, the others make new sessions for ever
    For: the trainer

    The input of a new session begins where the process began, and not at the checkpoint, and predictions that were made
    come again. With a strategy the process has to be started again. A parameter server that comes back has lost its
    variables. So the process ends, and the same command goes on from the checkpoint. A second call changes nothing.
    """
    with lacks.or_without():
        from tensorflow.python.training import monitored_session

        if monitored_session._PREEMPTION_ERRORS:
            monitored_session._PREEMPTION_ERRORS = ()


def end_forked_children() -> None:
    """Keeps a child that a hook has forked by hand (os.fork) from closing its parent's session.

    Touches: _MonitoredSession.__exit__ in tensorflow.python.training.monitored_session
    Without it: a child that a hook forks by hand waits for ever for threads that it does not have, and its parent for
      it
    For: the trainer

    If the child leaves the hook by an exception, it comes to the code that closes the session. That code waits for
    TensorFlow's threads, and a forked child has none of them. The child would wait for ever, and its parent for the
    child.

    Such a child ends where the session would be closed. A second call changes nothing.
    """
    with lacks.or_without():
        from tensorflow.python.training import monitored_session

        session_class: Any = monitored_session._MonitoredSession
        leave, parent = session_class.__exit__, os.getpid()
        if getattr(leave, 'mended', False):
            return

        def leave_in_parent(
            session: Any, exception_type: type[BaseException] | None, exception: BaseException | None, traceback: Any
        ) -> bool | None:
            forks.end_child_of(parent, exception)
            return leave(session, exception_type, exception, traceback)

        session_class.__exit__ = leave_in_parent
        session_class.__exit__.mended = True


def functions_have_failed() -> bool:
    """Whether any function has raised an exception."""
    return _failed.is_set()


def guard_functions(signals: Iterable[int]) -> None:
    """Lets Python functions of a job start processes in TensorFlow's threads (tf.numpy_function, tf.py_function,
    Dataset.from_generator).

    Touches: FuncRegistry.__call__ in tensorflow.python.ops.script_ops
    Without it: helper processes that a function of the job starts never see SIGTERM, and a forked child never ends
    For: the trainer

    A thread inherits the signals that are blocked where it is made, and so does every process that it starts, through
    exec as well. TensorFlow makes threads while the watchdog has signals blocked (`Watchdog.shielded`): a helper that
    is started there would never see SIGTERM. A child that the function forks and that leaves by an exception would go
    on as one of TensorFlow's threads, in a process that has no others, and never end.

    A thread unblocks `signals` before it first calls a function, and only the process that called it returns. A second
    call changes nothing.
    """
    with lacks.or_without():
        from tensorflow.python.ops import script_ops

        registry_class: Any = script_ops.FuncRegistry
        call = registry_class.__call__
        if getattr(call, 'mended', False):
            return

        def mended(registry: Any, *args: Any) -> Any:
            if not hasattr(_unblocked, 'in_thread'):
                signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
                _unblocked.in_thread = True
            with forks.parent_only():
                try:
                    return call(registry, *args)
                except StopIteration:  # of a generator: the end of its data
                    raise
                except Exception:
                    _failed.set()
                    raise

        registry_class.__call__ = mended
        registry_class.__call__.mended = True
