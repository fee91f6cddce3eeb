"""Tells how far the preparation of data has come, so that nobody takes this task for stalled. Imports no TensorFlow.

Preparation (a download, an index, a copy from a store) may take hours. Any thread calls `advance` when it has prepared
something. The callers choose what an amount means; it only has to grow while anything happens.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable

_LOOK_SECS = 5
LONGEST_STILL_SECS = 1800  # as the trainer's --step_timeout_secs

_listener: Callable[[int], object] | None = None
_amount = 0
_lock = threading.Lock()
_telling = threading.Lock()  # one thread at a time, so that the amounts come in order


@contextlib.contextmanager
def told_to(listener: Callable[[int], object]):
    """While the body runs, `listener` is told the whole amount so far."""
    global _listener, _amount
    _listener, _amount = listener, 0
    try:
        yield
    finally:
        _listener = None


def advance(amount: int = 1) -> None:
    """Something has been prepared."""
    global _amount
    with _lock:
        _amount += amount
    with _telling:
        listener = _listener
        if listener:
            listener(_amount)


@contextlib.contextmanager
def as_it_changes(folder: str, patience: 'WhileItAdvances | None' = None):
    """While the body runs, a change of the files in `folder` is an advance, whichever process makes it."""
    over = threading.Event()

    def look():
        before, secs = _state_of(folder), 0.0
        while not over.wait(max(_LOOK_SECS, 10 * secs)):
            began = time.monotonic()
            found = _state_of(folder)
            secs = time.monotonic() - began
            if found != before:
                advance()
                if patience:
                    patience.advanced()
            before = found

    threading.Thread(target=look, name='preparing', daemon=True).start()  # a file system that hangs holds up nobody
    try:
        yield
    finally:
        over.set()


class WhileItAdvances:
    """The patience of locks.Lock.wait with the process that prepares: it may take any time, unless it stands still."""

    def __init__(self, still_secs: float = LONGEST_STILL_SECS, clock=time.monotonic):
        self._still_secs, self._clock, self._began = still_secs, clock, clock()
        self._advanced_secs = 0.0

    def advanced(self) -> None:
        self._advanced_secs = self._clock() - self._began

    def __call__(self, holder) -> float:
        """Seconds to wait, from the beginning on."""
        return self._advanced_secs + self._still_secs


class Heartbeat:
    """Lets those who wait see that this process prepares something: the time of a file that is there."""

    def __init__(self, path: str):
        self._path, self._renewed_at = path, float('-inf')

    def renew(self) -> None:
        now = time.monotonic()
        if now - self._renewed_at >= _LOOK_SECS:
            self._renewed_at = now
            with contextlib.suppress(OSError):
                os.utime(self._path)


def _state_of(folder) -> tuple[int, int]:
    """Bytes of all files, and the time of the newest."""
    size = newest = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # it was renamed meanwhile
                found = os.stat(os.path.join(parent, name), follow_symlinks=False)
                size, newest = size + found.st_size, max(newest, found.st_mtime_ns)
    return size, newest
