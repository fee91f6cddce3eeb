"""Time without this process's own pauses."""

import threading
import time

PAUSE_SECS = 5  # a process that looks every second, and has not looked for so long, was not running


class AwakeClock:
    """Seconds in which this process could run. It has to be read often, at least every second.

    A process that is stopped (SIGSTOP), that is suspended with its machine or its allocation, or in which
    C code holds Python's global lock hears of nobody, and cannot say how long the others were silent. To
    all of these the gap between two readings is longer than any wait of ours. Such a gap counts as
    PAUSE_SECS.
    """

    def __init__(self, clock=time.monotonic):
        self._clock, self._lock = clock, threading.Lock()
        self._awake = self._read = clock()

    def __call__(self) -> float:
        with self._lock:
            now = self._clock()
            self._awake += min(now - self._read, PAUSE_SECS)
            self._read = now
            return self._awake
