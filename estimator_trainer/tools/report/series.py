"""A curve of any length, kept in at most MOST cells. Pure.

Values arrive in order of time, in blocks. A cell holds the values of neighbouring steps: their number, sum, least and
largest. When there are too many cells, each becomes twice as wide, so that memory and the page stay bounded however
many steps a run has. As long as the cells are one step wide, nothing is lost but repetitions of a step.
"""

from typing import NamedTuple

import numpy as np

MOST = 1200  # cells; more than a screen has columns for


class Points(NamedTuple):
    """A curve as it is drawn, in the order of the steps. Arrays of one length."""

    steps: np.ndarray  # where the cells are: the mean of their steps
    values: np.ndarray  # means
    least: np.ndarray
    most: np.ndarray


class Series:
    """The values of one metric by step."""

    def __init__(self, most: int = MOST):
        self._most, self.width = most, 1
        self._cells: dict[int, tuple[int, float, float, float, float]] = {}  # count, sum of steps, sum, least, most
        self.last: tuple[int, float] | None = None  # step and value that came last
        self.not_finite = 0
        self.count, self.total = 0, 0.0  # of all values

    def add(self, steps: np.ndarray, values: np.ndarray) -> None:
        """Takes the next values, int64 and float64 [n]; what is not finite is only counted."""
        finite = np.isfinite(values)
        self.not_finite += int(len(values) - np.count_nonzero(finite))
        steps, values = steps[finite], values[finite]
        if not len(steps):
            return
        self.last = int(steps[-1]), float(values[-1])
        self.count, self.total = self.count + len(values), self.total + float(values.sum())
        cells = steps // self.width
        order = np.argsort(cells, kind='stable')
        cells, steps, values = cells[order], steps[order], values[order]
        begins = np.flatnonzero(np.r_[True, cells[1:] != cells[:-1]])
        columns = (
            cells[begins].tolist(),
            np.diff(np.r_[begins, len(cells)]).tolist(),
            np.add.reduceat(steps.astype(float), begins).tolist(),
            np.add.reduceat(values, begins).tolist(),
            np.minimum.reduceat(values, begins).tolist(),
            np.maximum.reduceat(values, begins).tolist(),
        )
        for cell, *content in zip(*columns):
            self._cells[cell] = _joined(self._cells.get(cell), tuple(content))
        while len(self._cells) > self._most:
            self._widen()

    def points(self) -> Points:
        """The curve as it is known now."""
        rows = np.array([self._cells[cell] for cell in sorted(self._cells)], float).reshape(-1, 5)
        count = np.maximum(rows[:, 0], 1)
        return Points(rows[:, 1] / count, rows[:, 2] / count, rows[:, 3], rows[:, 4])

    def __len__(self):
        return len(self._cells)

    def _widen(self) -> None:
        self.width *= 2
        joined: dict[int, tuple] = {}
        for cell, content in self._cells.items():
            joined[cell // 2] = _joined(joined.get(cell // 2), content)
        self._cells = joined


def _joined(one: tuple | None, other: tuple) -> tuple:
    if one is None:
        return other
    return one[0] + other[0], one[1] + other[1], one[2] + other[2], min(one[3], other[3]), max(one[4], other[4])
