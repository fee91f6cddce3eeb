"""Saves the last step if the input of the next one fails.

An example of the files cannot be used: the run ends, and what it has trained is saved before.

Or a task that was told to stop fails because its helper processes were told so as well.

Ctrl-C in a terminal, and an engine's SIGTERM, go to all processes of a group. The trainer finishes its step
and saves; a helper that feeds it ends at once, and the job's Python code raises because of it. Estimator
closes a session that has failed without a checkpoint, and `fit` raises. Here it ends as with the end of the data,
saved. Only where this process trains alone: other tasks cannot know of it.
"""

import logging
import sys

import tensorflow as tf

from estimator_trainer.compat.patches import session_mends
from estimator_trainer.data.remote import patience
from estimator_trainer.training import what_failed

_log = logging.getLogger('estimator_trainer')
_OF_THE_NETWORK = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.DeadlineExceededError)
_OF_THE_NUMBERS = (ArithmeticError, tf.estimator.NanLossDuringTrainingError)  # the weights are not to be saved


def install(watchdog) -> None:
    """After this call an exception of the job's Python code after a signal ends Estimator's training, saved. A store of
    the data that does not answer is not waited for then."""
    watchdog.when_told_to_stop(patience.give_up)
    session_mends.decide_ends(lambda exception: ends_training(exception, watchdog), of_the_data)


def ends_training(exception, watchdog) -> bool:
    """Whether training ends here as if the signal had been obeyed: it has come, and no step was left half done."""
    if not watchdog.signum or not _between_steps(exception):
        return False
    _log.info('told to stop, and the job has failed meanwhile (%s)', what_failed.described(exception))
    watchdog.obey(watchdog.signum)
    return True


def of_the_data(exception) -> Exception | None:
    """What was wrong with the files, where TensorFlow reports that a batch could not be had."""
    files = sys.modules.get('estimator_trainer.data.files.source')
    # OutOfRangeError is the end of the data, as it should be.
    if files is None or isinstance(exception, (*_OF_THE_NETWORK, tf.errors.OutOfRangeError)):
        return None
    # TensorFlow may quote bytes of a record that are no text.
    return files.failure() if isinstance(exception, (tf.errors.OpError, UnicodeDecodeError)) else None


def _between_steps(exception) -> bool:
    """A hook has failed, or the input of the next step."""
    if isinstance(exception, _OF_THE_NUMBERS) or not isinstance(exception, Exception):
        return False
    return session_mends.functions_have_failed() or not isinstance(exception, tf.errors.OpError)
