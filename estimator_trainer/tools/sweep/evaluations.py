"""What a trial's eval/metrics.jsonl says of it, as it grows. Pure: lines in, values out."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import metrics_log


class Score(NamedTuple):
    step: int
    value: float | None  # of the metric; None where it is not finite


def of_lines(lines: Sequence[dict], metric: str) -> list[Score]:
    """The evaluations, by step; of several of one step the last one counts.

    Raises:
        UsageError: an evaluation does not have the metric.
    """
    by_step = {line['step']: line for line in lines if isinstance(line.get('step'), int)}
    scores = []
    for step in sorted(by_step):
        line = by_step[step]
        if metric not in line:
            names = ', '.join(sorted(set(line) - metrics_log.NOT_METRICS))
            raise UsageError(
                f'--metric={metric}: the evaluation does not give it; it has {names}. Name one of these, and another '
                '--model_dir.'
            )
        value = line[metric]
        if value is not None and not isinstance(value, int | float):
            raise UsageError(f'--metric={metric}: is no single number; name another metric.')
        scores.append(Score(step, value))
    return scores


def thousandths(step: int, max_steps: int) -> int:
    """How much of its training a trial has done. Trials with other batches make other steps of the same epochs, so
    this is what they are compared at."""
    return min(1000, round(1000 * step / max_steps))


class Judge:
    """Follows the evaluations of one trial, and decides once whether it is pruned.

    The decision depends on the evaluations alone, and not on when they are looked at: those after it do not count.

    Args:
        report: (thousandths of the training, value) -> whether the trial is to be pruned there.

    Attributes:
        pruned: the evaluation at which it was decided, or None.
        last: the last evaluation before that.
    """

    def __init__(self, report: Callable[[int, float], bool]):
        self._report = report
        self._seen = -1  # step
        self._reported: set[int] = set()
        self.pruned: Score | None = None
        self.last: Score | None = None

    def look(self, evaluations: Sequence[Score], max_steps: int) -> list[Score]:
        """Takes in all evaluations so far; returns those that are new."""
        new = []
        for evaluation in evaluations:
            if self.pruned or evaluation.step <= self._seen:
                continue
            self._seen, self.last = evaluation.step, evaluation
            new.append(evaluation)
            at = thousandths(evaluation.step, max_steps)
            if evaluation.value is None or at in self._reported:
                continue
            self._reported.add(at)
            if self._report(at, evaluation.value) and evaluation.step < max_steps:
                self.pruned = evaluation
        return new

    @property
    def value(self) -> float | None:
        """What the trial is worth; None where its last evaluation has no finite value."""
        last = self.pruned or self.last
        return last.value if last and last.value is not None and math.isfinite(last.value) else None
