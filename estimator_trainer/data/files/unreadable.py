"""The errors for data files that the operating system does not let us read, and a count of the examples that are left
out because they are damaged. Imports no TensorFlow."""

import errno
import logging
import threading

from estimator_trainer.data.files import listing
from estimator_trainer.errors import BadExample, DatasetError, DatasetRefused, DatasetUnavailable
from estimator_trainer.run_dir import file_errors

_log = logging.getLogger('estimator_trainer')
_LIMITS = (errno.EMFILE, errno.ENOSPC, errno.EDQUOT)


def stamp(path: str) -> listing.Stamp:
    """The size of a file and the time of its last change. Raises DatasetError if it cannot be read."""
    try:
        return listing.stamp(path)
    except OSError as error:
        raise because(path, error) from error


def because(path: str, error: OSError, when: str = '') -> DatasetError:
    """The error for a file that cannot be read, with the words of the operating system.

    Args:
        path: the file.
        error: the error of the operating system.
        when: the words after "cannot be read", such as ' any more'.
    """
    text = f'{path} cannot be read{when} ({error.strerror or error})'
    if error.errno in file_errors.MAY_PASS:
        return DatasetUnavailable(f'{text}; {file_errors.cure(error.errno)}')
    if error.errno in _LIMITS:
        return DatasetRefused(f'{text}; {file_errors.cure(error.errno)}')
    return DatasetError(text)


class Tolerance:
    """Counts the examples of a data set that are left out. Each counts once, however often it is read.

    Attributes:
        most: the largest number of examples that may be left out.
        error: the error that ended the reading, or None. TensorFlow passes on only its text.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.error: Exception | None = None
        self._left_out: set[int] = set()
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        """The number of examples that were left out."""
        return len(self._left_out)

    def leave_out(self, number: int, error: BadExample) -> None:
        """Leaves an example out. Raises `error` if it may not be left out, or if as many as allowed were before."""
        with self._lock:
            if number in self._left_out:
                return
            if not error.may_be_left_out or len(self._left_out) >= self.most:
                raise error
            self._left_out.add(number)
        _log.warning('WARNING: left out %d of at most %d examples: %s', self.count, self.most, error)
