"""Repeats a request while a store fails, for a bounded time. Imports nothing but the errors of a store."""

import logging
import random
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from estimator_trainer.errors import DatasetError, DatasetUnavailable
from estimator_trainer.storage.store import StoreRefused, StoreUnavailable

AWAY_SECS = 300  # a store is back after a minute, or stays away; a step may take 1800 s (--step_timeout_secs)
REFUSED_SECS = 60  # for a store that has let us read before: credentials may be being renewed
_FIRST_PAUSE_SECS, _LONGEST_PAUSE_SECS, _SAY_SECS = 0.5, 15, 30
_T = TypeVar('_T')
_log = logging.getLogger('estimator_trainer')


class Patience:
    """How the requests of one process wait for a store that is away: those of many threads wait together.

    Args:
        clock: the time now, in seconds.
        sleep: waits for some seconds, in place of a wait that `give_up` ends.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], object] | None = None
    ) -> None:
        self._given_up, self._lock = threading.Event(), threading.Lock()
        self._clock, self._sleep = clock, sleep or self._given_up.wait
        self._warned_at = self._gave_up_at = float('-inf')
        self._is_away = False

    def give_up(self) -> None:
        """Makes requests fail at once if a store does not answer, because this process is ending."""
        self._given_up.set()

    def request(self, ask: Callable[[], _T], refused_secs: float = 0) -> _T:
        """Calls `ask`, again and again with growing pauses while the store is away, and returns its result.

        Args:
            ask: the request.
            refused_secs: for how long a store that refuses is asked again as well, in seconds.

        Raises:
            DatasetUnavailable: the store was away for AWAY_SECS, or this process is ending.
            DatasetError: the store refuses.
        """
        began, pause = self._clock(), _FIRST_PAUSE_SECS
        # The batches that are read ahead fail as well. They must not wait as long again, so that this task can end.
        patient = began - self._gave_up_at > AWAY_SECS
        refused_since: float | None = None
        while True:
            try:
                result = ask()
            except (StoreUnavailable, StoreRefused) as error:
                away = isinstance(error, StoreUnavailable)
                most, now = AWAY_SECS if away else refused_secs, self._clock()
                refused_since = None if away else now if refused_since is None else refused_since
                secs = now - (began if refused_since is None else refused_since)
                if secs + pause > most or not patient or self._given_up.is_set():
                    if away:
                        self._gave_up_at = self._clock()
                        raise DatasetUnavailable(
                            f'{error}; it was asked for {secs:.0f} s. The same command may work later'
                        ) from None
                    raise DatasetError(f'{error}; mend that, or name other data') from None
                self._warn(f'{error}; it has failed for {secs:.0f} s and is asked for up to {most:g} s')
                self._sleep(pause * random.uniform(0.5, 1))  # many tasks must not ask at the same moment
                pause = min(2 * pause, _LONGEST_PAUSE_SECS)
            else:
                self._gave_up_at = float('-inf')
                if pause > _FIRST_PAUSE_SECS:
                    self._answered()
                return result

    def _warn(self, text: str) -> None:
        with self._lock:
            if self._clock() - self._warned_at < _SAY_SECS:
                return
            self._warned_at, self._is_away = self._clock(), True
        _log.warning('WARNING: waits for data: %s', text)

    def _answered(self) -> None:
        with self._lock:
            was_away, self._is_away = self._is_away, False
        if was_away:
            _log.info('the store of the data answers again')


OF_PROCESS = Patience()
give_up = OF_PROCESS.give_up
