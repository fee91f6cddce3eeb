"""When steps were trained: stretches of time without a pause, from the times in metrics.jsonl. Pure."""

import dataclasses
from collections.abc import Sequence

import numpy as np

MOST = 1000  # stretches; further ones become part of the last
_LEAST_PAUSE_SECS = 20.0
_PAUSE_TIMES = 20  # the usual time between two lines


@dataclasses.dataclass
class Stretch:
    """A row of lines of one process, without a pause or a step back."""

    began: float  # seconds since the epoch, of its first line
    ended: float
    first: int  # step of its first line
    last: int
    lines: int = 1
    again: int = 0  # steps that were trained before, and once more from here on


class Stretches:
    """Finds stretches in lines that arrive in order of time, in blocks.

    Args:
        starts: when a process began that writes the lines, seconds since the epoch. No stretch spans one of them: a
            process that goes on from the last step of the one before leaves no other trace in the lines.
    """

    def __init__(self, starts: Sequence[float] = ()):
        self.found: list[Stretch] = []
        self._starts = np.sort(np.array(starts, np.float64))
        self._usual: float | None = None  # seconds between two lines
        self._farthest: int | None = None

    @property
    def steps_again(self) -> int:
        """Steps that were trained once more, after a restart."""
        return sum(each.again for each in self.found)

    def add(self, steps: np.ndarray, times: np.ndarray) -> None:
        """Takes the next lines: int64 and float64 [n]."""
        if not len(steps):
            return
        if self.found:  # the last line comes again, so that the step from it to the first new one counts
            last = self.found[-1]
            steps, times = np.r_[last.last, steps], np.r_[last.ended, times]
        else:
            self.found.append(Stretch(float(times[0]), float(times[0]), int(steps[0]), int(steps[0])))
            self._farthest = int(steps[0])
        waits, advances = np.diff(times), np.diff(steps)
        usual = waits[(advances > 0) & (waits >= 0)]
        if len(usual):
            median = float(np.median(usual))
            self._usual = median if self._usual is None else min(self._usual, median)
        pause = max(_LEAST_PAUSE_SECS, _PAUSE_TIMES * (self._usual or 0))
        process = np.searchsorted(self._starts, times, side='right')
        breaks = np.flatnonzero((advances <= 0) | (waits > pause) | (waits < 0) | (np.diff(process) != 0))
        start = 1
        for place in (*breaks.tolist(), len(steps) - 1):
            self._extend(steps[start : place + 1], times[start : place + 1])
            if place + 1 < len(steps):
                self._begin(int(steps[place + 1]), float(times[place + 1]))
            start = place + 2
        self._farthest = max(self._farthest, int(steps.max()))

    def _extend(self, steps, times) -> None:
        if len(steps):
            last = self.found[-1]
            last.ended, last.last, last.lines = float(times[-1]), int(steps[-1]), last.lines + len(steps)

    def _begin(self, step: int, time: float) -> None:
        before = self.found[-1]
        again = max(0, before.last - step + 1)
        if len(self.found) >= MOST:
            before.ended, before.last, before.lines = time, step, before.lines + 1
            before.again += again
        else:
            self.found.append(Stretch(time, time, step, step, again=again))
