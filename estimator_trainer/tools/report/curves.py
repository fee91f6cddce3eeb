"""What a run has measured over time, kept in bounded memory: one curve for each metric. Pure."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from estimator_trainer.tools.report.series import Series
from estimator_trainer.tools.report.stretches import Stretches

MOST_METRICS = 60  # a job may name a metric after each of its classes


@dataclasses.dataclass
class Log:
    """The lines of one metrics.jsonl, or of the files of events in one folder."""

    series: dict[str, Series] = dataclasses.field(default_factory=dict)
    clock: Series = dataclasses.field(default_factory=Series)  # seconds since the epoch, by step
    stretches: Stretches = dataclasses.field(default_factory=Stretches)
    lines: int = 0
    damaged: int = 0  # lines that are no JSON, or have no step
    began: float | None = None
    ended: float | None = None
    left_out: int = 0  # metrics beyond MOST_METRICS

    def add(self, steps: np.ndarray, times: np.ndarray, values: Mapping[str, np.ndarray]) -> None:
        """Takes the next lines, in order of time.

        Args:
            steps: int64 [n]. times: float64 [n], seconds since the epoch; NaN where that is not known.
            values: of each metric, float64 [n]; NaN where it is not finite, and for a line without it `missing`.
        """
        if not len(steps):
            return
        self.lines += len(steps)
        known = np.isfinite(times)
        self.stretches.add(steps[known], times[known])
        self.clock.add(steps[known], times[known])
        if known.any():
            self.began = float(times[known].min()) if self.began is None else self.began
            self.ended = float(times[known][-1])
        for name, column in values.items():
            if name not in self.series and len(self.series) >= MOST_METRICS:
                self.left_out += 1
                continue
            here = column != MISSING
            self.series.setdefault(name, Series()).add(steps[here], column[here])

    def last(self, name: str) -> float | None:
        """The last value of a metric."""
        found = self.series.get(name)
        return found.last[1] if found and found.last else None

    @property
    def last_step(self) -> int | None:
        return self.stretches.found[-1].last if self.stretches.found else None

    def __len__(self):
        return self.lines


MISSING = -np.inf  # a number that no line holds: JSON has no infinity
