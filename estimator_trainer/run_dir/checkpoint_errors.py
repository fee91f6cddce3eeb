"""What goes wrong where a checkpoint is read: its contents are damaged, or the operating system refuses them now."""

import errno
import functools
import logging
import os
import re
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import tensorflow as tf

from estimator_trainer.run_dir import file_errors

P = ParamSpec('P')
R = TypeVar('R')
_log = logging.getLogger('estimator_trainer')
UNREADABLE = (tf.errors.OpError, ValueError, RuntimeError, IndexError)  # what a damaged one raises
PAUSES_SECS = (1, 2, 4, 8)  # before a file is tried again whose error may pass


class CannotReadCheckpoint(OSError):
    """The operating system does not let us read a checkpoint now. That says nothing of its contents.

    `errno` is 0 where TensorFlow does not tell it.
    """

    @classmethod
    def because(cls, error: BaseException, path: str) -> 'CannotReadCheckpoint':
        number = error.errno if isinstance(error, OSError) else file_errors.number_in(str(error))
        return cls(number or 0, os.strerror(number) if number else one_line(error), path)


def patient(function: Callable[P, R]) -> Callable[P, R]:
    """Tries again, a few times, where a file cannot be read for a reason that may pass."""

    @functools.wraps(function)
    def tries(*args: P.args, **kwargs: P.kwargs) -> R:
        for secs in PAUSES_SECS:
            try:
                return function(*args, **kwargs)
            except CannotReadCheckpoint as error:
                if error.errno not in file_errors.MAY_PASS:
                    raise
                _log.warning(
                    'WARNING: %s cannot be read (%s): tries again in %d s', error.filename, error.strerror, secs
                )
                time.sleep(secs)
        return function(*args, **kwargs)

    return tries


def was_refused(error: BaseException, prefix: str) -> bool:
    """Whether an error of TensorFlow's says that the operating system would not let it read a checkpoint. A
    file that is not there is another thing: it is gone."""
    text = str(error)
    return prefix in text and file_errors.number_in(text) not in (None, errno.ENOENT)


def raise_if_refused(error: BaseException, prefix: str) -> None:
    if was_refused(error, prefix):
        raise CannotReadCheckpoint.because(error, prefix + str(error).partition(prefix)[2].partition(';')[0]) from error


def one_line(error: BaseException) -> str:
    text = re.sub(r'^\{\{.*?\}\} |TensorBundle at \S+ (?=shard )| \[Op:.*$', '', str(error).strip().splitlines()[0])
    return text or type(error).__name__


def exists(path: str) -> bool:
    """Unlike os.path.exists it does not take for absent what it may not look at."""
    try:
        os.stat(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise CannotReadCheckpoint.because(error, path) from error
    return True


def names(folder: str) -> list[str]:
    """The names of the files in a folder; [] if there is no such folder."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise CannotReadCheckpoint.because(error, folder) from error
