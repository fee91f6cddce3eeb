"""Decides how an Estimator's session ends after an exception: whether its last step is saved.

Touches: tf.compat.v1.train.MonitoredSession.__exit__
Without it: a session that fails closes without a checkpoint, also where only the input of the next step has failed
For: the trainer
"""

import tensorflow as tf


def install(is_end, is_saved) -> None:
    """From here on sessions ask what an exception means.

    Args:
        is_end: (exception) -> whether the session ends as if there had been none.
        is_saved: (exception or None) -> whether the session is saved, and the exception raised.
    """
    leave = tf.compat.v1.train.MonitoredSession.__exit__

    def leave_saved(session, exception_type, exception, traceback):
        if exception is not None and is_end(exception):
            leave(session, None, None, None)
            return True
        if is_saved(exception):
            leave(session, None, None, None)
            return False  # it is raised again
        return leave(session, exception_type, exception, traceback)

    tf.compat.v1.train.MonitoredSession.__exit__ = leave_saved
