"""An exception that ended a task -> exit code and one line that says what to do.

Where the input of the next step fails, what was trained is saved before the task ends:

- An example of the files cannot be used.
- A task that was told to stop fails, because its helper processes were told so as well. Ctrl-C in a terminal, and an
  engine's SIGTERM, go to all processes of a group. The trainer finishes its step and saves; a helper that feeds it ends
  at once, and the job's Python code raises because of it. Estimator closes a session that has failed without a
  checkpoint, and `fit` raises. Here training ends as with the end of the data, saved. Only where this process trains
  alone: other tasks cannot know of it.
"""

import errno
import logging
import os
import re
import signal
import sys
import traceback

import tensorflow as tf

from estimator_trainer import exit_codes
from estimator_trainer.compat.patches import python_lock, session_mends
from estimator_trainer.data.remote import patience
from estimator_trainer.error_lines import short
from estimator_trainer.errors import BadExample, DatasetError, NoBatch
from estimator_trainer.evaluation.continuous_evaluation import TrainingLost, TrainingStopped
from estimator_trainer.lifecycle.ending import End
from estimator_trainer.lifecycle.watchdog import Watchdog
from estimator_trainer.run_dir import checkpoint_errors, checkpoints, file_errors, protocol
from estimator_trainer.this_process import gpus
from estimator_trainer.training import agreed_start, coordination, what_failed
from estimator_trainer.training.loop import NotFiniteError
from estimator_trainer.training.plan import Plan

_log = logging.getLogger('estimator_trainer')
_NO_WRITING = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
_NO_PERMISSION = {errno.EACCES, errno.EPERM}
_NO_WRITING_TEXTS = ('No space left on device', 'Disk quota exceeded', 'Read-only file system')
_NO_PERMISSION_TEXT = 'Permission denied'
_NO_WRITING_TEXT = re.compile('|'.join(_NO_WRITING_TEXTS))
_QUOTED_PATH = re.compile(": '([^']+)'")
_TAKEN_TEXT = 'Could not start gRPC server'
_MEMORY_CURE = (
    'try a smaller --batch_size, with as many more --accumulate_steps for the same weights; '
    '--mixed_precision=bfloat16 takes less memory'
)
_BAD_EXAMPLE_CURE = '; mend the example, or leave out up to N of them with --max_bad_examples=N'
_OF_THE_NETWORK = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.DeadlineExceededError)
_OF_THE_NUMBERS = (ArithmeticError, tf.estimator.NanLossDuringTrainingError)  # the weights are not to be saved
# Where TensorFlow raises what its runtime reports.
_RAISING = (
    os.path.join(os.path.dirname(tf.__file__), 'python', ''),
    os.path.abspath(python_lock.__file__),
    os.path.abspath(coordination.__file__),
)


def explain(error: BaseException, plan: Plan, watchdog: Watchdog) -> End:
    """Says what an exception means for the user. Prints its traceback where that is what they need."""
    error = of_the_data(error) or error
    text = what_failed.first_line(error)
    if isinstance(error, BadExample):
        return End(exit_codes.DAMAGED, text.rstrip('.') + _BAD_EXAMPLE_CURE * error.may_be_left_out)
    if isinstance(error, NoBatch):
        return End(error.exit_code, text)
    if isinstance(error, DatasetError):
        isolated = os.environ.get(protocol.ISOLATED) == '1' and error.exit_code == exit_codes.NO_DATA
        cure = ' This cluster has no network (--isolate=off gives it one).' if isolated else ''
        if plan.inside and error.exit_code == exit_codes.NO_DATA:
            cure = ' A secured task has no network (--secure=off gives it one).'
        return End(error.exit_code, text + cure)
    if isinstance(error, checkpoints.NoGoodCheckpoint):
        return End(exit_codes.DAMAGED, text)
    if isinstance(error, (NotFiniteError, tf.estimator.NanLossDuringTrainingError)):
        return End(exit_codes.NOT_FINITE, _not_finite(text, plan, watchdog))
    if isinstance(error, TrainingStopped):
        return End(
            exit_codes.TERMINATED,
            'training was stopped by a signal; the last checkpoint is evaluated, the same command resumes',
        )
    if isinstance(error, TrainingLost):
        code = exit_codes.LOST_PEER if error.ever_seen else exit_codes.NO_PEER
        return End(
            code, f'{text}; restart all tasks: they resume', peer=str(plan.cluster.chief_task) if plan.cluster else None
        )
    if isinstance(error, checkpoint_errors.CannotReadCheckpoint):
        return End(
            file_errors.exit_code(error.errno),
            f'{error.filename} cannot be read ({error.strerror}), and '
            f'was left where it is; {file_errors.cure(error.errno)}',
        )
    if isinstance(error, agreed_start.StartRefused):
        return End(error.code, text)
    if plan.config.xla and (part := what_failed.not_compiled(what_failed.text_of(error))):
        return End(exit_codes.USAGE, f'--xla: XLA cannot compile {part}; leave --xla out')
    trace = tuple(traceback.format_exception(type(error), error, error.__traceback__))
    lines = tuple(''.join(trace).rstrip().splitlines())
    if _cannot_write(error, plan.config.model_dir):
        return End(
            exit_codes.CANNOT_WRITE,
            f'{plan.config.model_dir} cannot be written or read ({short(text)}); '
            'make room or mend the permissions: the last good checkpoint is still there, the '
            'same command resumes',
            traceback=lines,
        )
    number = _number_of_file_error(error, plan.config.model_dir)
    if number:
        return End(
            file_errors.exit_code(number),
            f'{plan.config.model_dir}: a file failed ({os.strerror(number)}); {file_errors.cure(number)}',
            traceback=lines,
        )
    traceback.print_exception(type(error), error, error.__traceback__)
    if _out_of_memory(error):
        return End(exit_codes.OUT_OF_MEMORY, f'out of memory ({short(text)}); {_MEMORY_CURE}', traceback=lines)
    if plan.task and isinstance(error, tf.errors.OpError) and _TAKEN_TEXT in error.message:
        return End(
            exit_codes.PORT_TAKEN,
            f"this task's port is taken by another process: {plan.cluster.addresses(plan.task.role)[plan.task.index]}",
            traceback=lines,
        )
    if (
        plan.watched_peers()
        and isinstance(error, tf.errors.OpError)
        and what_failed.is_of_a_peer(type(error).__name__, error.message, _is_raised_by_tensorflow(error), plan.name)
    ):
        return _lost(error, text, plan.name, watchdog, lines)
    if isinstance(error, KeyboardInterrupt):
        return End(128 + signal.SIGINT, 'interrupted; the same command goes on from what is saved, if anything')
    if _may_be_back(error):
        return End(
            exit_codes.FILES_AWAY,
            f'a store or a service of the job does not answer ({what_failed.described(error)}); the same command goes '
            'on from what is saved, if anything',
            traceback=lines,
        )
    return End(exit_codes.FAILED, what_failed.described(error), traceback=lines)


def _lost(error: tf.errors.OpError, text: str, task: str, watchdog: Watchdog, lines: tuple[str, ...]) -> End:
    missing = watchdog.missing_peers()
    if missing:
        lost = missing[0]
        return End(
            exit_codes.LOST_PEER,
            f'lost {lost.name} at {lost.address} ({short(text)}); restart all tasks: they resume',
            peer=lost.name,
            traceback=lines,
        )
    peer = what_failed.peer_of(error.message, task)
    return End(
        exit_codes.LOST_PEER,
        f'an operation with {peer or "another task"} failed ({short(text)}); restart all tasks: they resume',
        peer=peer,
        traceback=lines,
    )


def _is_raised_by_tensorflow(error: BaseException) -> bool:
    """Whether TensorFlow's runtime has reported the error; code of a job raises the same classes."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and os.path.abspath(frames[-1].filename).startswith(_RAISING)


def _may_be_back(error: BaseException) -> bool:
    """Whether TensorFlow could not reach what may answer later: a store of files, a service of tf.data."""
    if not isinstance(error, (tf.errors.UnavailableError, tf.errors.AbortedError)):
        return False
    return _is_raised_by_tensorflow(error) and not what_failed.is_of_python(error.message)


def _not_finite(text: str, plan: Plan, watchdog: Watchdog) -> str:
    step = watchdog.checkpoint_step or checkpoints.last_step(plan.config.model_dir)
    return (
        f'{text}. The last good checkpoint is of step {step}. Try a lower learning rate, a warm-up, '
        'or look for such values in the data; --allow_config_change lets the run go on from there '
        'with another one'
    )


def _cannot_write(error: BaseException, model_dir: str) -> bool:
    text = str(error)
    if isinstance(error, OSError):
        no_writing, no_permission = error.errno in _NO_WRITING, error.errno in _NO_PERMISSION
        path = error.filename
        elsewhere = isinstance(path, str) and not _is_within(path, model_dir)
    else:
        ours = isinstance(error, tf.errors.OpError)
        no_writing = ours and any(phrase in text for phrase in _NO_WRITING_TEXTS)
        no_permission = ours and _NO_PERMISSION_TEXT in text
        path = _named_file(text)
        elsewhere = not _is_within(path, model_dir) if path else what_failed.is_of_python(text)
    # What the job writes or reads somewhere else is the job's.
    return (no_writing and not elsewhere) or (no_permission and model_dir in text)


def _named_file(text: str) -> str | None:
    """The file that could not be written. TensorFlow names it before what went wrong, and Python after it."""
    for match in _NO_WRITING_TEXT.finditer(text):
        after, before = _QUOTED_PATH.match(text, match.end()), text[: match.start()]
        if after:
            return after[1]
        if before.endswith('; ') and not before[-3:-2].isspace():
            return before[:-2].rsplit(None, 1)[-1]
    return None


def _is_within(path: str, folder: str) -> bool:
    return any(form(path).startswith(os.path.join(form(folder), '')) for form in (os.path.abspath, os.path.realpath))


def _number_of_file_error(error: BaseException, model_dir: str) -> int | None:
    """The operating system's number of an error of a file in the model_dir that may pass, or is a limit of ours."""
    if model_dir not in str(error) or not isinstance(error, (OSError, tf.errors.OpError)):
        return None
    number = error.errno if isinstance(error, OSError) else file_errors.number_in(str(error))
    return number if number == errno.EMFILE or number in file_errors.MAY_PASS else None


def _out_of_memory(error: BaseException) -> bool:
    of_memory = isinstance(error, tf.errors.ResourceExhaustedError) and not any(
        phrase in error.message for phrase in _NO_WRITING_TEXTS
    )
    text = str(error)
    return isinstance(error, MemoryError) or of_memory or 'bad_alloc' in text or gpus.is_out_of_memory(text)


def save_if_input_fails(watchdog: Watchdog) -> None:
    """After this call an exception of the job's Python code after a signal ends Estimator's training, saved. A store of
    the data that does not answer is not waited for then."""
    watchdog.when_told_to_stop(patience.give_up)
    session_mends.decide_ends(lambda exception: ends_training(exception, watchdog), of_the_data)


def ends_training(exception: BaseException, watchdog: Watchdog) -> bool:
    """Whether training ends here as if the signal had been obeyed: it has come, and no step was left half done."""
    if not watchdog.signum or not _between_steps(exception):
        return False
    _log.info('told to stop, and the job has failed meanwhile (%s)', what_failed.described(exception))
    watchdog.obey(watchdog.signum)
    return True


def of_the_data(exception: BaseException | None) -> Exception | None:
    """What was wrong with the files, where TensorFlow reports that a batch could not be had."""
    files = sys.modules.get('estimator_trainer.data.files.source')
    # OutOfRangeError is the end of the data, as it should be.
    if files is None or isinstance(exception, (*_OF_THE_NETWORK, tf.errors.OutOfRangeError)):
        return None
    # TensorFlow may quote bytes of a record that are no text.
    return files.failure() if isinstance(exception, (tf.errors.OpError, UnicodeDecodeError)) else None


def _between_steps(exception: BaseException) -> bool:
    """A hook has failed, or the input of the next step."""
    if isinstance(exception, _OF_THE_NUMBERS) or not isinstance(exception, Exception):
        return False
    return session_mends.functions_have_failed() or not isinstance(exception, tf.errors.OpError)
