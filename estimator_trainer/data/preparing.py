"""Reports the progress of the preparation of data, so that other tasks do not think that this one is stalled.

Preparation (a download, an index, a copy from a store) may take hours. Any thread calls `advance` when it has prepared
something. The callers choose the unit of an amount, which only has to grow while something happens. Imports no
TensorFlow.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator

LOOK_SECS = 5
LONGEST_STILL_SECS = 1800  # the default of --step_timeout_secs

_listener: Callable[[int], object] | None = None
_amount = 0
_lock = threading.Lock()
_reporting = threading.Lock()  # one thread reports at a time, so that the amounts come in order


@contextlib.contextmanager
def told_to(listener: Callable[[int], object]) -> Iterator[None]:
    """While the body runs, `listener` gets the whole amount so far, after each advance."""
    global _listener, _amount
    _listener, _amount = listener, 0
    try:
        yield
    finally:
        _listener = None


def advance(amount: int = 1) -> None:
    """Reports that something has been prepared."""
    global _amount
    with _lock:
        _amount += amount
    with _reporting:
        listener = _listener
        if listener:
            listener(_amount)


@contextlib.contextmanager
def as_it_changes(folder: str, patience: 'WhileItAdvances | None' = None) -> Iterator[None]:
    """While the body runs, each change of the files in `folder` counts as an advance, whichever process makes it."""
    over = threading.Event()

    def look() -> None:
        before, secs = _state_of(folder), 0.0
        while not over.wait(max(LOOK_SECS, 10 * secs)):
            began = time.monotonic()
            now = _state_of(folder)
            secs = time.monotonic() - began
            if now != before:
                advance()
                if patience:
                    patience.advanced()
            before = now

    # A daemon thread: a file system that hangs must not keep the process from ending.
    threading.Thread(target=look, name='preparing', daemon=True).start()
    try:
        yield
    finally:
        over.set()


class WhileItAdvances:
    """How long locks.Lock.wait waits for a process that prepares data: as long as it makes progress.

    Args:
        still_secs: the longest time without progress, in seconds.
        clock: the time now, in seconds.
        look: () -> a number that changes with the progress, asked every LOOK_SECS; None: `advanced` reports it.
    """

    def __init__(
        self,
        still_secs: float = LONGEST_STILL_SECS,
        clock: Callable[[], float] = time.monotonic,
        look: Callable[[], int] | None = None,
    ) -> None:
        self._still_secs, self._clock, self._began, self._look = still_secs, clock, clock(), look
        self._advanced_secs = 0.0
        self._looked_at, self._state = self._began, 0

    def advanced(self) -> None:
        """Reports that the process has made progress."""
        self._advanced_secs = self._clock() - self._began

    def __call__(self, holder: object) -> float:
        """The seconds to wait, counted from the beginning."""
        if self._look and self._clock() - self._looked_at >= LOOK_SECS:
            self._looked_at, before, self._state = self._clock(), self._state, self._look()
            if self._state != before:
                self.advanced()
                advance()
        return self._advanced_secs + self._still_secs


class Heartbeat:
    """Renews the time of a file that exists, so that processes which wait see that this one makes progress."""

    def __init__(self, path: str) -> None:
        self._path, self._renewed_at = path, float('-inf')

    def renew(self) -> None:
        """Renews the time, at most once in LOOK_SECS."""
        now = time.monotonic()
        if now - self._renewed_at >= LOOK_SECS:
            self._renewed_at = now
            with contextlib.suppress(OSError):
                os.utime(self._path)


def _state_of(folder: str) -> tuple[int, int]:
    """The bytes of all files in a folder, and the time of the newest change in nanoseconds."""
    size = newest = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # the file was renamed meanwhile
                status = os.stat(os.path.join(parent, name), follow_symlinks=False)
                size, newest = size + status.st_size, max(newest, status.st_mtime_ns)
    return size, newest
