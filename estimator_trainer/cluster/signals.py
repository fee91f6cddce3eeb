"""Signals as something to select on, so that one thread can wait for all there is."""

import os
import signal

STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """While it is entered, STOP signals and SIGCHLD do nothing but make `fileno()` readable.

    A STOP signal that was ignored before (nohup, a background job of a script) stays ignored.
    Main thread only.
    """

    def __enter__(self):
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._old_fd = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        caught = [s for s in STOP if signal.getsignal(s) is not signal.SIG_IGN]
        self._old = {s: signal.signal(s, self._ignore) for s in (*caught, signal.SIGCHLD)}
        return self

    def __exit__(self, *exc_info):
        for signum, handler in self._old.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(self._old_fd)
        os.close(self._reader)
        os.close(self._writer)

    def fileno(self) -> int:
        return self._reader

    def take(self) -> list[signal.Signals]:
        """The STOP signals that came since the last call, in order. Never blocks."""
        try:
            return [signal.Signals(b) for b in os.read(self._reader, 4096) if b in STOP]
        except BlockingIOError:
            return []

    @staticmethod
    def _ignore(signum, frame):
        """A handler must exist for the wake-up; SIG_IGN would be inherited by the tasks."""
