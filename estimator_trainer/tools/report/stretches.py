"""When steps were trained: stretches of time without a pause, from the times in metrics.jsonl. Pure."""

import dataclasses

import numpy as np

MOST = 1000  # stretches; further ones become part of the last
_LEAST_PAUSE_SECS = 20.0
_PAUSE_TIMES = 20  # the usual time between two lines


@dataclasses.dataclass
class Stretch:
    """A row of lines without a pause or a step back."""

    began: float  # seconds since the epoch, of its first line
    ended: float
    first: int  # step of its first line
    last: int
    lines: int = 1


class Stretches:
    """Finds stretches in lines that arrive in order of time, in blocks."""

    def __init__(self):
        self.found: list[Stretch] = []
        self.steps_again = 0  # that were trained once more, after a restart
        self._usual: float | None = None  # seconds between two lines
        self._farthest: int | None = None

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
        breaks = np.flatnonzero((advances <= 0) | (waits > pause) | (waits < 0))
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
        if step <= before.last:
            self.steps_again += before.last - step + 1
        if len(self.found) >= MOST:
            before.ended, before.last, before.lines = time, step, before.lines + 1
        else:
            self.found.append(Stretch(time, time, step, step))
