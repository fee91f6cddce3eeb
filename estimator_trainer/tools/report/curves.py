"""What a run has measured over time, kept in bounded memory however many steps it has. Pure.

Values arrive in order of time, in blocks. A curve has at most MOST_CELLS cells; a cell holds the values of neighbouring
steps: their number, sum, least and largest. When there are too many cells, each becomes twice as wide. As long as the
cells are one step wide, nothing is lost but repetitions of a step.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from estimator_trainer.run_dir import metrics_log
from estimator_trainer.tools.pages import Points

MOST_CELLS = 1200  # more than a screen has columns for
MOST_METRICS = 500  # a job may name a metric after each of its classes
MOST_STRETCHES = 1000  # further ones become part of the last
_LEAST_PAUSE_SECS = 20.0
_PAUSE_TIMES = 20  # the usual time between two lines
_LOSS = 'loss'  # every line has it; null says that it is not finite. In other columns null may say that it is missing.
_MISSING = -np.inf  # a number that no line holds: JSON has no infinity


class Series:
    """The values of one metric by step.

    Attributes:
        width: of a cell, in steps.
        last: step and value that came last; None before the first.
        not_finite: how many values were not.
        count, total: number and sum of all values that were finite.
    """

    def __init__(self, most: int = MOST_CELLS):
        self._most, self.width = most, 1
        self._cells = np.empty(0, np.int64)  # their numbers, in order
        self._rows = np.empty((0, 5))  # of each cell: count, sum of steps, sum, least, most
        self.last: tuple[int, float] | None = None
        self.not_finite = 0
        self.count, self.total = 0, 0.0

    def add(self, steps: np.ndarray, values: np.ndarray) -> None:
        """Takes the next values, int64 and float64 [n]; what is not finite is only counted."""
        finite = np.isfinite(values)
        self.not_finite += int(np.count_nonzero(~finite))
        steps, values = steps[finite], values[finite]
        if not len(steps):
            return
        self.last = int(steps[-1]), float(values[-1])
        self.count, self.total = self.count + len(values), self.total + float(values.sum())
        rows = np.column_stack([np.ones(len(steps)), steps, values, values, values])
        self._join(np.r_[self._cells, steps // self.width], np.vstack([self._rows, rows]))
        while len(self._cells) > self._most:
            self.width *= 2
            self._join(self._cells // 2, self._rows)

    def _join(self, cells: np.ndarray, rows: np.ndarray) -> None:
        """Keeps these rows, of which those of one cell become one."""
        order = np.argsort(cells, kind='stable')
        cells, rows = cells[order], rows[order]
        begins = np.flatnonzero(np.r_[True, cells[1:] != cells[:-1]])
        sums, least = np.add.reduceat(rows[:, :3], begins), np.minimum.reduceat(rows[:, 3], begins)
        self._cells = cells[begins]
        self._rows = np.column_stack([sums, least, np.maximum.reduceat(rows[:, 4], begins)])

    def points(self) -> Points:
        """The curve as it is known now. A point is where the mean of the steps of its cell is."""
        count, steps, values, least, most = self._rows.T
        return Points(steps / count, values / count, least, most)

    def __len__(self) -> int:
        return len(self._cells)


@dataclasses.dataclass
class Stretch:
    """A row of lines of one process, without a pause or a step back."""

    began: float  # seconds since the epoch, of its first line
    ended: float
    first: int  # step of its first line
    last: int
    lines: int = 0
    again: int = 0  # steps that were trained before, and once more in this stretch


class Stretches:
    """Finds stretches in lines that arrive in order of time, in blocks.

    Args:
        starts: when a process began that writes the lines, seconds since the epoch. No stretch spans one of them: a
            process that goes on from the last step of the one before leaves no other trace in the lines.

    Attributes:
        all: the stretches, in order of time.
    """

    def __init__(self, starts: Sequence[float] = ()):
        self.all: list[Stretch] = []
        self._starts = np.sort(np.array(starts, np.float64))
        self._usual: float | None = None  # seconds between two lines

    @property
    def steps_again(self) -> int:
        """Steps that were trained once more, after a restart."""
        return sum(each.again for each in self.all)

    def add(self, steps: np.ndarray, times: np.ndarray) -> None:
        """Takes the next lines: int64 and float64 [n]."""
        if not len(steps):
            return
        if not self.all:
            self.all.append(Stretch(float(times[0]), float(times[0]), int(steps[0]), int(steps[0])))
        last = self.all[-1]
        waits, advances = np.diff(times, prepend=last.ended), np.diff(steps, prepend=last.last)
        usual = waits[(advances > 0) & (waits >= 0)]
        if len(usual):
            median = float(np.median(usual))
            self._usual = median if self._usual is None else min(self._usual, median)
        pause = max(_LEAST_PAUSE_SECS, _PAUSE_TIMES * (self._usual or 0))
        process = np.searchsorted(self._starts, np.r_[last.ended, times], side='right')
        breaks = (advances <= 0) | (waits > pause) | (waits < 0) | (np.diff(process) != 0)
        breaks[0] &= last.lines > 0  # the very first line breaks nothing
        bounds = [0, *np.flatnonzero(breaks).tolist(), len(steps)]
        for number, (start, end) in enumerate(zip(bounds, bounds[1:])):
            if number:
                self._begin(int(steps[start]), float(times[start]))
            if end > start:
                last = self.all[-1]
                last.ended, last.last, last.lines = float(times[end - 1]), int(steps[end - 1]), last.lines + end - start

    def _begin(self, step: int, time: float) -> None:
        before = self.all[-1]
        again = max(0, before.last - step + 1)
        if len(self.all) >= MOST_STRETCHES:
            before.again += again
        else:
            self.all.append(Stretch(time, time, step, step, again=again))


@dataclasses.dataclass
class Log:
    """The lines of one metrics.jsonl, or of the files of events in one folder.

    Attributes:
        clock: seconds since the epoch, by step.
        damaged: lines that are no JSON, or have no step.
        began, ended: the first and the last time in the lines, seconds since the epoch; None: not known.
    """

    series: dict[str, Series] = dataclasses.field(default_factory=dict)
    clock: Series = dataclasses.field(default_factory=Series)
    stretches: Stretches = dataclasses.field(default_factory=Stretches)
    lines: int = 0
    damaged: int = 0
    began: float | None = None
    ended: float | None = None

    def add(self, lines: Sequence[Mapping[str, Any]], damaged: int = 0) -> None:
        """Takes the next lines, in order of time; of metrics beyond MOST_METRICS none.

        Args:
            damaged: how many further lines could not be read.
        """
        good = [line for line in lines if type(line.get('step')) is int and 0 <= line['step'] < 2**62]
        self.damaged += damaged + len(lines) - len(good)
        if not good:
            return
        self.lines += len(good)
        steps = np.array([line['step'] for line in good], np.int64)
        times = np.array([_number(line.get('time'), np.nan) for line in good], np.float64)
        known = np.isfinite(times)
        self.stretches.add(steps[known], times[known])
        self.clock.add(steps[known], times[known])
        if known.any():
            self.began = float(times[known].min()) if self.began is None else self.began
            self.ended = float(times[known][-1])
        for name in dict.fromkeys(name for line in good for name in line if name not in metrics_log.NOT_METRICS):
            null = np.nan if name == _LOSS else _MISSING
            column = np.array([_number(line.get(name, _MISSING), null) for line in good], np.float64)
            there = column != _MISSING
            if there.any() and (name in self.series or len(self.series) < MOST_METRICS):
                self.series.setdefault(name, Series()).add(steps[there], column[there])

    def last(self, name: str) -> float | None:
        """The last value of a metric."""
        series = self.series.get(name)
        return series.last[1] if series and series.last else None

    @property
    def last_step(self) -> int | None:
        return self.stretches.all[-1].last if self.stretches.all else None

    def __len__(self) -> int:
        return self.lines


def _number(value: Any, null: float) -> float:
    """A value of a line. `null`: what null means. What is no number is missing."""
    if value is None:
        return null
    return float(value) if type(value) in (int, float) else _MISSING
