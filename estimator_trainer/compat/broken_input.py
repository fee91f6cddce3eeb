"""Saves where a task that was told to stop fails because its helper processes were told so as well.

Ctrl-C in a terminal, and an engine's SIGTERM, go to all processes of a group. The trainer finishes its step
and saves; a helper that feeds it ends at once, and the job's Python code raises because of it. Estimator
closes a session that has failed without a checkpoint. Here it ends as with the end of the data, saved.
Only where this process trains alone: other tasks cannot know of it.
"""

import logging

import tensorflow as tf
from tensorflow.python.training import monitored_session

from estimator_trainer.compat import python_functions

_log = logging.getLogger('estimator_trainer')


def install(lifeline, of_the_numbers) -> None:
    """From here on an exception of the job's Python code after a signal ends training, saved.

    Args:
        of_the_numbers: exceptions that say the weights are not to be saved.
    """
    leave = monitored_session.MonitoredSession.__exit__

    def leave_saved(session, exception_type, exception, traceback):
        if exception is not None and lifeline.signum and _between_steps(exception, of_the_numbers):
            _log.info('told to stop, and the job has failed meanwhile (%s: %s)', exception_type.__name__,
                      str(exception).splitlines()[0] if str(exception) else 'no message')
            lifeline.obey(lifeline.signum)
            leave(session, None, None, None)
            return True
        return leave(session, exception_type, exception, traceback)

    monitored_session.MonitoredSession.__exit__ = leave_saved


def _between_steps(exception, of_the_numbers) -> bool:
    """Whether no step was left half done: a hook has failed, or the input of the next step."""
    if isinstance(exception, of_the_numbers) or not isinstance(exception, Exception):
        return False
    return python_functions.have_failed() or not isinstance(exception, tf.errors.OpError)
