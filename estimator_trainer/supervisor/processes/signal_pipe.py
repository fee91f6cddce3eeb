"""Signals as something to select on, so that one thread can wait for all there is."""

import os
import signal

from estimator_trainer import forks
from estimator_trainer.run_dir import protocol

STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PROFILE = signal.Signals(protocol.PROFILE_SIGNAL)


class Signals:
    """While it is entered, STOP signals and SIGCHLD do nothing but make `fileno()` readable.

    A STOP signal that was ignored before (nohup, a background job of a script) stays ignored.
    Main thread only.

    Args:
        also: signals that are taken as the STOP signals are, even if they were ignored before.
    """

    def __init__(self, also: tuple[signal.Signals, ...] = ()):
        self._also = also

    def __enter__(self):
        with forks.none_meanwhile():
            self._reader, self._writer = os.pipe()
            os.set_blocking(self._reader, False)
            os.set_blocking(self._writer, False)
            self._old_fd = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
            caught = [s for s in STOP if signal.getsignal(s) is not signal.SIG_IGN]
            self._old = {s: signal.signal(s, self._ignore) for s in (*caught, *self._also, signal.SIGCHLD)}
            forks.in_child(self._give_up)
        return self

    def __exit__(self, *exc_info):
        forks.forget(self._give_up)
        self._end(self._old_fd)

    def _give_up(self):
        """In a forked child: its signals are its own, and what it would write to is its parent's."""
        self._end(-1)

    def _end(self, wakeup_fd):
        for signum, handler in self._old.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(wakeup_fd)
        for descriptor in (self._reader, self._writer):
            os.close(descriptor)

    def fileno(self) -> int:
        return self._reader

    def take(self) -> list[signal.Signals]:
        """The signals, STOP and others, that came since the last call, in order. Never blocks."""
        try:
            return [signal.Signals(b) for b in os.read(self._reader, 4096) if b in (*STOP, *self._also)]
        except BlockingIOError:
            return []

    @staticmethod
    def _ignore(signum, frame):
        """A handler must exist for the wake-up; SIG_IGN would be inherited by the tasks."""
