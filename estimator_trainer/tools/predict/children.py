"""The processes of a prediction: starts them, passes on what they say, and bounds every wait for them.

None of them outlives this process, and a kill loses nothing but the parts under way. So they are ended by SIGKILL.
"""

import collections
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from multiprocessing import connection

from estimator_trainer import exit_codes
from estimator_trainer.this_process.child_process import PIPE, Child
from estimator_trainer.this_process.signal_pipe import Signals

_LOOK_SECS = 0.5
_LAST_LINES = 15
_ERROR = 'error: '


class Ended(Exception):
    """The prediction ends before it is done. `code` is its exit code; the message may be empty: it has been said."""

    def __init__(self, code: int, message: str = ''):
        super().__init__(message)
        self.code = code


def run(
    start: Callable[[int], tuple[str, ...]],
    processes: int,
    signals: Signals,
    timeout_secs: float,
    heard: Callable[[dict], None],
    show: Callable[[str], None],
) -> None:
    """Runs the processes until all have ended with 0. Process 0 starts the others by the first line that it reports.

    Args:
        start: number of a process -> its command line.
        signals: entered already.
        timeout_secs: the longest silence of a process.
        heard: called with each line of JSON that a process reports on its stdout.
        show: called with each line of a process's stderr.

    Raises:
        Ended: a signal came, or a process failed, was killed or was silent for too long.
    """
    with contextlib.ExitStack() as stack:

        def begin(number):
            return stack.enter_context(contextlib.closing(_Child(number, start(number), processes > 1)))

        children = [begin(0)]
        while children:
            descriptors = [descriptor for child in children for descriptor in child.open_pipes]
            ready = connection.wait([signals, *descriptors], _LOOK_SECS)
            stop_if_told(signals)
            for child in tuple(children):
                for fields in child.take(ready, show):
                    heard(fields)
                    if 'rows' in fields and child.number == 0:
                        children += map(begin, range(1, processes))
                if child.check(timeout_secs):
                    children.remove(child)


def stop_if_told(signals: Signals) -> None:
    """Raises Ended if a signal has come that asks this process to stop."""
    for signum in signals.take():
        code = exit_codes.INTERRUPTED if signum.name == 'SIGINT' else exit_codes.TERMINATED
        raise Ended(code, f'stopped by {signum.name}; the same command goes on')


class _Child:
    """A process that has been started, and what it says."""

    def __init__(self, number: int, argv: tuple[str, ...], named: bool):
        self.number = number
        self._name = f'process {number + 1}'
        self._prefix = f'[{self._name}] ' if named else ''
        env = {name: value for name, value in os.environ.items() if name != 'TF_CONFIG'}
        self._process = Child(argv, env=env, stdout=PIPE, stderr=PIPE)
        self._heard_at = time.monotonic()
        self._last = collections.deque(maxlen=_LAST_LINES)

    @property
    def open_pipes(self) -> tuple[int, ...]:
        return self._process.open_pipes

    def take(self, ready: Iterable, show: Callable[[str], None]) -> list[dict]:
        """Shows what it has written to stderr, and returns what it has reported. Never waits."""
        reports = []
        for descriptor in set(ready).intersection(self.open_pipes):
            self._heard_at = time.monotonic()
            lines = self._process.read_lines(descriptor)
            if descriptor == self._process.stdout:
                reports += map(json.loads, lines)
                continue
            for text in lines:
                self._last.append(text)
                show(text if text.startswith(_ERROR) else self._prefix + text)
        return reports

    def check(self, timeout_secs: float) -> bool:
        """Whether it has ended well.

        Raises:
            Ended: it has failed, or has said nothing for `timeout_secs`.
        """
        code = self._process.poll()
        ended = code is not None and not self.open_pipes  # what it has written is read first
        if ended and code == exit_codes.OK:
            return True
        if ended:
            code = code if code > 0 else 128 - code
            if self._last and self._last[-1].startswith(_ERROR):
                raise Ended(code)
            again = '; the same command goes on' if exit_codes.retryable(code) else ''
            raise Ended(code, f'{self._name} ended with code {code} ({exit_codes.describe(code)}){again}')
        if time.monotonic() - self._heard_at > timeout_secs:
            raise Ended(
                exit_codes.STALLED,
                f'{self._name} has said nothing for {timeout_secs:g} s (--timeout_secs); the same command goes on. '
                'A smaller --batch_size takes less time.',
            )
        return False

    def close(self) -> None:
        self._process.close()


def command(folder: str, number: int, processes: int) -> tuple[str, ...]:
    """The command line of one process."""
    return (sys.executable, '-m', 'estimator_trainer.tools.predict.worker', folder, str(number), str(processes))
