"""Counts unusable examples that are left out, and keeps the error that ended the reading. Imports no TensorFlow."""

import logging
import threading

from estimator_trainer.errors import BadExample

_log = logging.getLogger('estimator_trainer')


class Tolerance:
    """Counts the examples of a data set that are left out; each once, however often it is read.

    Attributes:
        most: so many may be.
        error: what ended the reading. TensorFlow gives only its text to whoever waits for the batch.
    """

    def __init__(self, most: int):
        self.most, self.error = most, None
        self._left_out, self._lock = set(), threading.Lock()

    @property
    def count(self) -> int:
        return len(self._left_out)

    def leave_out(self, number: int, error: BadExample) -> None:
        """Raises `error` if too many were left out before."""
        with self._lock:
            if number in self._left_out:
                return
            if len(self._left_out) >= self.most:
                raise error
            self._left_out.add(number)
        _log.warning('WARNING: left out %d of at most %d examples: %s', self.count, self.most, error)
