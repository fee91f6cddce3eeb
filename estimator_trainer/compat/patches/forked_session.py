"""Keeps a child that a hook has forked by hand (os.fork) from closing its parent's session.

Touches: _MonitoredSession.__exit__ in tensorflow.python.training.monitored_session
Without it: a child that a hook forks by hand waits for ever for threads that it does not have, and its parent for it
For: the trainer

If the child leaves the hook by an exception, it comes to the code that closes the session. That code waits for
TensorFlow's threads, and a forked child has none of them. The child would wait for ever, and its parent for the child.
"""

import os

from estimator_trainer.compat import lacks
from estimator_trainer.this_process import forks


def install() -> None:
    """From here on such a child ends where the session would be closed. A second call changes nothing."""
    with lacks.or_without():
        from tensorflow.python.training import monitored_session

        _mend(monitored_session._MonitoredSession)


def _mend(session_class) -> None:
    leave = session_class.__exit__
    if getattr(leave, 'mended', False):
        return
    parent = os.getpid()

    def leave_in_parent(session, exception_type, exception, traceback):
        forks.end_child_of(parent, exception)
        return leave(session, exception_type, exception, traceback)

    leave_in_parent.mended = True
    session_class.__exit__ = leave_in_parent
