"""When processes trained, from report.json, status.json and the names of files of events. Pure.

A span goes from a start of the process that reports the steps (the chief, or the trainer alone) to its end. A run may
be started again and again: by a supervisor, whose attempts are spans, or as a trainer alone.
"""

from collections.abc import Mapping
from typing import NamedTuple

from estimator_trainer.tools.report.run_facts import RunFiles
from estimator_trainer.tools.report.stretches import Stretch

_EARLY_SECS = 1.0  # the name of a file of events has whole seconds


class Window(NamedTuple):
    """A start of the run, from its beginning to its end, seconds since the epoch."""

    began: float
    ended: float


class Span(NamedTuple):
    """From a start of the training processes to their end, seconds since the epoch.

    Attributes:
        window: of the start of the run that it belongs to.
        first: the step that it went on from; None: not known.
        trained: the steps from there; None: only its reports tell.
    """

    began: float
    ended: float
    window: Window
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


def starts_alone(run: RunFiles) -> list[float]:
    """When trainers began that no supervisor has started."""
    gangs = _of_supervisors(run)
    return [at for at in run.starts if not any(each.began - _EARLY_SECS <= at <= each.ended for each in gangs)]


def windows(run: RunFiles) -> list[Window]:
    """Each start of the run, in order of time."""
    return sorted({*_of_supervisors(run), *(span.window for span in _of_trainers(run))})


def wall(run: RunFiles) -> tuple[float, float] | None:
    """When the run began and ended, or when it was last seen; None: not known."""
    found = windows(run)
    if found:
        return found[0].began, max(each.ended for each in found)
    begins, last = [at for at in (*run.starts, run.train.began) if at], _last_seen(run)
    return (min(begins), last) if begins and last else None


def of(run: RunFiles) -> list[Span]:
    """The spans of a run, in order of time."""
    return sorted([*_of_gangs(run), *_now(run), *_of_trainers(run)], key=lambda span: span.began)


def _of_supervisors(run: RunFiles) -> list[Window]:
    return [window for _, window in _gangs(run)]


def _gangs(run: RunFiles) -> list[tuple[dict, Window]]:
    """Each start of a supervisor, with its window; without those of which a time is missing."""
    starts, found = run.gang_starts, []
    for start in starts:
        began, secs = _number(start.get('started')), _number(start.get('secs'))
        if secs is None and run.alive.cluster and start is starts[-1]:
            secs = max(0.0, run.read_at - (began or 0.0))
        if began is not None and secs is not None:
            found.append((start, Window(began, began + secs)))
    return found


def _of_gangs(run: RunFiles) -> list[Span]:
    found = []
    for start, window in _gangs(run):
        for attempt in start['attempts']:
            lives = _lives(attempt)
            for number, (began, ended) in enumerate(lives):
                is_last = number == len(lives) - 1
                failed = not is_last or attempt.get('why') not in ('done', 'not drained', 'signalled')
                first, trained = None, None
                if len(lives) == 1:
                    first, step = attempt.get('checkpoint_before') or 0, attempt.get('step')
                    trained = max(0, step - first) if type(step) is int else None
                found.append(Span(began, ended, window, first, failed, trained))
    return found


def _now(run: RunFiles) -> list[Span]:
    """Of the attempt that goes on."""
    began, gangs = now(run), _of_supervisors(run)
    return [Span(began, max(began, run.read_at), gangs[-1])] if began is not None and gangs else []


def now(run: RunFiles) -> float | None:
    """When the attempt of the gang that goes on began; None: there is none, or the next one is waited for."""
    if not run.alive.cluster or run.report or not run.gang_starts:
        return None
    ended = [each.get('attempt') for each in run.gang_starts[-1]['attempts']]
    return None if run.status.get('attempt') in ended else _number(run.status.get('attempt_started'))


def _of_trainers(run: RunFiles) -> list[Span]:
    """Of the starts without a supervisor: each is a span, which ends with its last report."""
    gangs, stretches = _of_supervisors(run), run.train.stretches.found
    begins = starts_alone(run)
    if not begins and not gangs and stretches:
        begins = [stretches[0].began]
    if not stretches:
        return []
    last_seen, found = _last_seen(run) or 0.0, []
    for began in begins:
        later = [at for at in (*begins, *(each.began for each in gangs)) if at > began]
        if began > last_seen and not later:
            continue
        following = min(later, default=None)
        seen = [
            each.ended for each in stretches if began <= each.ended and (following is None or each.ended < following)
        ]
        ended = max([began, *seen]) if following is not None else max(last_seen, began)
        found.append(Span(began, ended, Window(began, ended)))
    return found


def _last_seen(run: RunFiles) -> float | None:
    """When the files of the trainer were written last."""
    told = [_number(run.training.get('time')), run.train.ended, *(log.ended for log in run.evaluations.values())]
    return max(filter(None, told), default=None)


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
