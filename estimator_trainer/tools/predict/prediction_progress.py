"""What people see of a prediction: a bar or lines, for all processes together."""

import logging
import sys
import time
from collections.abc import Callable

from estimator_trainer.this_process.log import duration

_log = logging.getLogger('estimator_trainer')
_LINE_SECS = 10  # between two lines


class Progress:
    """Reports the rows that are predicted, rows/s and the time left.

    Args:
        bar: whether to draw a bar on stderr instead of writing lines.
        clock: seconds, monotonic.
        named: line of a process -> the line that people see.
    """

    def __init__(self, bar: bool, clock=time.monotonic, named: Callable[[str], str] = str):
        self._draw, self._clock, self._named = bar, clock, named
        self._bar = None
        self.rows = self.done = 0

    def start(self, rows: int, there: int) -> None:
        """`rows` are to be predicted, and `there` of them have been predicted before."""
        self.rows, self.done, self._there = rows, there, there
        self._started_at = self._said_at = self._clock()
        if self._draw:
            import tqdm

            self._bar = tqdm.tqdm(total=rows, initial=there, unit='row', file=sys.stderr, dynamic_ncols=True)

    def add(self, rows: int) -> None:
        """`rows` more are predicted, at least one."""
        self.done += rows
        now = self._clock()
        if self._bar is not None:
            self._bar.update(rows)
        elif now - self._said_at >= _LINE_SECS or self.done == self.rows:
            self._said_at = now
            rate = (self.done - self._there) / max(now - self._started_at, 1e-9)
            left = duration((self.rows - self.done) / rate)
            _log.info('%s/%s rows  %s rows/s  %s left', f'{self.done:,}', f'{self.rows:,}', f'{rate:,.0f}', left)

    def show(self, line: str) -> None:
        """Writes a line of a process, above the bar."""
        line = self._named(line)
        if self._bar is None:
            print(line, file=sys.stderr, flush=True)
        else:
            self._bar.write(line, file=sys.stderr)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
