"""Counts damaged examples that are left out, and keeps the error that ended the reading. Imports no TensorFlow."""

import logging
import threading

from estimator_trainer.errors import BadExample

_log = logging.getLogger('estimator_trainer')


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
        """Leaves an example out. Raises `error` if as many as allowed were left out before."""
        with self._lock:
            if number in self._left_out:
                return
            if len(self._left_out) >= self.most:
                raise error
            self._left_out.add(number)
        _log.warning('WARNING: left out %d of at most %d examples: %s', self.count, self.most, error)
