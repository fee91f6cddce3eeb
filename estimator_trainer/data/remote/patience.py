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
_given_up = threading.Event()
_lock = threading.Lock()
_said, _is_away = float(-_SAY_SECS), False  # the time of the last warning; many threads wait for one store
_gave_up_at = float('-inf')  # the time at which a store had been away for too long


def give_up() -> None:
    """Makes requests fail at once if a store does not answer, because this process is ending."""
    _given_up.set()


def patiently(
    ask: Callable[[], _T],
    refused_secs: float = 0,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = _given_up.wait,
) -> _T:
    """Calls `ask`, again and again with growing pauses while the store is away, and returns its result.

    Args:
        ask: the request.
        refused_secs: for how long a store that refuses is asked again as well, in seconds.
        clock: the time now, in seconds.
        sleep: waits for some seconds.

    Raises:
        DatasetUnavailable: the store was away for AWAY_SECS, or this process is ending.
        DatasetError: the store refuses.
    """
    global _gave_up_at
    began, pause = clock(), _FIRST_PAUSE_SECS
    # The batches that are read ahead fail as well. They must not wait as long again, so that this task can end.
    patient = began - _gave_up_at > AWAY_SECS
    while True:
        try:
            result = ask()
        except (StoreUnavailable, StoreRefused) as error:
            away = isinstance(error, StoreUnavailable)
            most, secs = AWAY_SECS if away else refused_secs, clock() - began
            if secs + pause > most or not patient or _given_up.is_set():
                if away:
                    _gave_up_at = clock()
                    raise DatasetUnavailable(
                        f'{error}; it was asked for {secs:.0f} s. The same command may work later'
                    ) from None
                raise DatasetError(f'{error}; mend that, or name other data') from None
            _warn(f'{error}; it has failed for {secs:.0f} s and is asked for up to {most:g} s')
            sleep(pause * random.uniform(0.5, 1))  # many tasks must not ask at the same moment
            pause = min(2 * pause, _LONGEST_PAUSE_SECS)
        else:
            _gave_up_at = float('-inf')
            if pause > _FIRST_PAUSE_SECS:
                _say_it_answers()
            return result


def _warn(text: str) -> None:
    global _said, _is_away
    with _lock:
        if time.monotonic() - _said < _SAY_SECS:
            return
        _said, _is_away = time.monotonic(), True
    _log.warning('WARNING: waits for data: %s', text)


def _say_it_answers() -> None:
    global _is_away
    with _lock:
        was_away, _is_away = _is_away, False
    if was_away:
        _log.info('the store of the data answers again')
