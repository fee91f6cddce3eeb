"""Handles the signals of the process that the user starts. They also interrupt what it does before its child begins."""

import signal
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from estimator_trainer import exit_codes
from estimator_trainer.run_dir import protocol

T = TypeVar('T')
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LOOK_SECS = 0.2
LEAVE_SECS = 1  # for what is under way when a signal comes: a store that answers is left tidy


class Stopped(Exception):
    """A signal that ends the run has come before its child was started.

    Attributes:
        code: the exit code.
    """

    def __init__(self, signum: int):
        super().__init__()
        self.code = exit_codes.INTERRUPTED if signum == signal.SIGINT else exit_codes.TERMINATED


class SignalRelay:
    """A context that takes the signals, those of this process and those for the child. Main thread only.

    A signal that was ignored before (nohup, a background job of a script) stays ignored, by the child too. As process 1
    of a container this one needs handlers: the kernel gives it no signal that it has none for.

    Attributes:
        pending: those that the child was not given yet.
        is_waited_for: something that was given up is still under way.
    """

    def __init__(self, grace_secs: float):
        self.pending: list[int] = []
        self.is_waited_for = False
        self._grace = grace_secs
        self._deadline: float | None = None
        self._before: dict = {}

    def __enter__(self) -> 'SignalRelay':
        caught = [each for each in _SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
        for signum in (*caught, protocol.PROFILE_SIGNAL):
            self._before[signum] = signal.signal(signum, self._take)
        return self

    def __exit__(self, *exc_info: object) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)

    def check(self) -> None:
        """Raises Stopped."""
        for signum in self.pending:
            if signum in _SIGNALS:
                raise Stopped(signum)

    def wait_for(self, function: Callable[[], T]) -> T:
        """Calls it in a thread: a signal need not wait for the answer of a store. Raises Stopped too."""
        self.check()
        ended, results, errors = threading.Event(), list[T](), list[BaseException]()

        def call() -> None:
            try:
                results.append(function())
            except BaseException as error:
                errors.append(error)
            finally:
                ended.set()

        threading.Thread(target=call, name='start', daemon=True).start()
        while not ended.wait(_LOOK_SECS):
            if self._deadline is not None:
                self.is_waited_for = not ended.wait(LEAVE_SECS)
                break
        self.check()
        if errors:
            raise errors[0]
        return results[0]

    def time_is_up(self) -> bool:
        """Whether the grace period of the first signal that ends the run is over."""
        return self._deadline is not None and time.monotonic() >= self._deadline

    def _take(self, signum: int, frame: object) -> None:
        self.pending.append(signum)
        if signum in _SIGNALS:
            self._deadline = self._deadline or time.monotonic() + self._grace
