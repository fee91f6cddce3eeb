"""Decides how an Estimator's session ends after an exception: whether its last step is saved.

Touches: tf.compat.v1.train.MonitoredSession.__exit__
Without it: a session that fails closes without a checkpoint, also where only the input of the next step has failed
For: the trainer
"""

import tensorflow as tf


def install(is_end, is_saved) -> None:
    """From here on sessions ask what an exception means. The last call counts.

    Args:
        is_end: (exception) -> whether the session ends as if there had been none.
        is_saved: (exception or None) -> whether the session is saved, and the exception raised.
    """
    session_class = tf.compat.v1.train.MonitoredSession
    leave = getattr(session_class.__exit__, 'original', session_class.__exit__)

    def leave_saved(session, exception_type, exception, traceback):
        if exception is not None and is_end(exception):
            leave(session, None, None, None)
            return True
        if is_saved(exception):
            leave(session, None, None, None)
            return False  # it is raised again
        return leave(session, exception_type, exception, traceback)

    leave_saved.original = leave
    session_class.__exit__ = leave_saved
