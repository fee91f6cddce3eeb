"""A clock that leaves out the pauses of this process."""

import threading
import time
from collections.abc import Callable

PAUSE_SECS = 5  # a process that looks every second was not running if it has not looked for longer than this


class AwakeClock:
    """Seconds in which this process could run. Somebody has to read the clock at least every second.

    A process does not run while it is stopped (SIGSTOP), while its machine or its allocation is suspended, or while
    C code holds Python's global lock. It hears nothing meanwhile, and so it cannot say how long others were silent.
    The clock knows a pause by the gap between two readings: a gap longer than PAUSE_SECS counts as PAUSE_SECS.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock, self._lock = clock, threading.Lock()
        self._awake = self._read = clock()

    def __call__(self) -> float:
        with self._lock:
            now = self._clock()
            self._awake += min(now - self._read, PAUSE_SECS)
            self._read = now
            return self._awake
