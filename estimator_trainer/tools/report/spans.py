"""When processes trained, from report.json, status.json and the names of files of events. Pure.

A span goes from a start of the process that reports the steps (the chief, or the trainer alone) to its end.
"""

from collections.abc import Mapping
from typing import NamedTuple

from estimator_trainer.tools.report.run_facts import RunFiles
from estimator_trainer.tools.report.stretches import Stretch


class Span(NamedTuple):
    """From a start of the training processes to their end, seconds since the epoch.

    Attributes:
        first: the step that it went on from; None: not known.
        trained: the steps from there; None: only its reports tell.
    """

    began: float
    ended: float
    first: int | None = None
    failed: bool = False
    trained: int | None = None

    def holds(self, stretch: Stretch) -> bool:
        return self.began <= stretch.began <= self.ended


def starts(run: RunFiles) -> list[float]:
    """When each of the processes that report steps began, as far as is known. Reads no metrics."""
    found = [began for attempt in run.attempts for began, _ in _lives(attempt)]
    now = _number(run.status.get('attempt_started'))
    return sorted({*found, *([now] if now is not None else []), *run.starts})


def wall(run: RunFiles) -> tuple[float, float] | None:
    """When the run began and ended, or when it was last seen; None: not known."""
    began, secs = _number(run.report.get('started')), _number(run.report.get('secs'))
    if secs is not None and began is not None:
        return began, began + secs
    told = [_number(run.status.get('started')), *(_number(each.get('started')) for each in run.attempts)]
    begins = [*run.starts, run.train.began, *told]
    ends = [_number(run.training.get('time')), run.train.ended, *(log.ended for log in run.evaluations.values())]
    known = [at for at in begins if at], [at for at in ends if at]
    return (min(known[0]), max(known[1])) if all(known) else None


def of(run: RunFiles) -> list[Span]:
    """The spans of a run, in order of time."""
    if run.attempts:
        return [*_of_gang(run), *_now(run)]
    stretches, whole = run.train.stretches.found, wall(run)
    if not stretches or whole is None:
        return _now(run)
    last = whole[1]
    begins = sorted(start for start in run.starts if start <= last) or [stretches[0].began]
    found = []
    for start, following in zip(begins, [*begins[1:], None]):
        seen = [each.ended for each in stretches if following is None or each.ended < following]
        found.append(Span(start, max([start, *seen]) if following is not None else max(last, start)))
    return found


def _of_gang(run: RunFiles) -> list[Span]:
    found = []
    for attempt in run.attempts:
        lives = _lives(attempt)
        for number, (began, ended) in enumerate(lives):
            is_last = number == len(lives) - 1
            failed = not is_last or attempt.get('why') not in ('done', 'not drained', 'signalled')
            first, trained = None, None
            if len(lives) == 1:
                first, step = attempt.get('checkpoint_before') or 0, attempt.get('step')
                trained = max(0, step - first) if type(step) is int else None
            found.append(Span(began, ended, first, failed, trained))
    return found


def _now(run: RunFiles) -> list[Span]:
    """Of the attempt that goes on."""
    now = _number(run.status.get('attempt_started'))
    return [Span(now, run.read_at)] if now is not None and run.alive.cluster and not run.report else []


def _lives(attempt: Mapping) -> list[tuple[float, float]]:
    """When the chief of an attempt began and ended, in each of its lives; the last one ends with the attempt."""
    began, secs = _number(attempt.get('started')), _number(attempt.get('secs'))
    if began is None or secs is None:
        return []
    tasks = [each for each in attempt.get('tasks') or () if isinstance(each, dict)]
    names = {each.get('name') for each in tasks}
    chief = next((name for name in ('chief:0', 'worker:0') if name in names), None)
    lives = sorted(
        (_number(each.get('began_secs')) or 0.0, _number(each.get('secs')) or 0.0)
        for each in tasks
        if each.get('name') == chief
    )
    if len(lives) < 2:
        return [(began, began + secs)]
    ends = [*(ended for _, ended in lives[:-1]), secs]
    return [
        (began + (since if number else 0.0), began + end) for number, ((since, _), end) in enumerate(zip(lives, ends))
    ]


def _number(value) -> float | None:
    return float(value) if type(value) in (int, float) else None
