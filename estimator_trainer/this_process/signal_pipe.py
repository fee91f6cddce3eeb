"""Signals as bytes of a pipe, which one thread can select on beside all else.

The C code of Python writes the number of each signal that has a handler to a descriptor (signal.set_wakeup_fd), even if
the main thread is stuck where Python runs no handler.
"""

import contextlib
import os
import signal
from collections.abc import Iterable
from typing import Any

from estimator_trainer.this_process import forks

STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # a terminal that is closed sends SIGHUP


class SignalPipe:
    """While it is open, some signals do nothing but write their numbers. The main thread opens and closes it."""

    def __init__(self) -> None:
        self._reader = self._writer = -1
        self._old_fd = -1
        self._old: dict[int, Any] = {}  # the handlers from before; None: C code had set one

    def _open(self, signums: Iterable[int]) -> None:
        with forks.none_meanwhile():
            self._reader, self._writer = os.pipe()
            os.set_blocking(self._reader, False)
            os.set_blocking(self._writer, False)
            self._old_fd = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
            self._old = {signum: signal.signal(signum, do_nothing) for signum in signums}
            forks.in_child(self._give_up)

    def _close(self) -> None:
        """Puts the old handlers back, but for those that Python cannot put back."""
        forks.forget(self._give_up)
        signal.set_wakeup_fd(self._old_fd)
        for signum, handler in self._old.items():
            if handler is not None:
                signal.signal(signum, handler)

    def _give_up(self) -> None:
        """In a forked child: its signals are its own, and what it would write to is its parent's."""
        signal.set_wakeup_fd(-1)
        for signum, handler in self._old.items():
            signal.signal(signum, signal.SIG_DFL if handler is None else handler)
        self._close_pipe()

    def _close_pipe(self) -> None:
        os.close(self._reader)
        os.close(self._writer)

    def _read(self) -> bytes:
        """The numbers that have come. Never waits."""
        with contextlib.suppress(BlockingIOError):
            return os.read(self._reader, 4096)
        return b''


class Signals(SignalPipe):
    """While it is entered, STOP signals and SIGCHLD do nothing but make `fileno()` readable.

    A STOP signal that was ignored before (nohup, a background job of a script) stays ignored.
    Main thread only.

    Args:
        also: signals that are taken as the STOP signals are, even if they were ignored before.
    """

    def __init__(self, also: tuple[signal.Signals, ...] = ()):
        super().__init__()
        self._also = also

    def __enter__(self) -> 'Signals':
        caught = [signum for signum in STOP if signal.getsignal(signum) is not signal.SIG_IGN]
        self._open((*caught, *self._also, signal.SIGCHLD))
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._close()
        self._close_pipe()

    def fileno(self) -> int:
        return self._reader

    def take(self) -> list[signal.Signals]:
        """The signals, STOP and others, that came since the last call, in order. Never blocks."""
        return [signal.Signals(signum) for signum in self._read() if signum in (*STOP, *self._also)]


def do_nothing(signum: int, frame: object) -> None:
    """A handler must exist for the signal to be written; SIG_IGN would be inherited by the tasks."""
