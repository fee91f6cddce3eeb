"""When processes trained, from report.json, status.json and the names of files of events. Pure.

A span goes from a start of the process that reports the steps (the chief, or the trainer alone) to its end. A run may
be started again and again: by a supervisor, whose attempts are spans, or as a trainer alone.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from estimator_trainer.run_dir import run_starts
from estimator_trainer.run_dir.protocol import real
from estimator_trainer.tools.report.curves import Stretch
from estimator_trainer.tools.report.run_files import RunFiles

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
        trained: the steps from there; None: only its reports say it.
    """

    began: float
    ended: float
    window: Window
    first: int | None = None
    failed: bool = False
    trained: int | None = None

    def holds(self, stretch: Stretch) -> bool:
        return self.began <= stretch.began <= self.ended


def spans(run: RunFiles) -> list[Span]:
    """The spans of a run, in order of time."""
    began, gangs = attempt_now(run), _windows_of_supervisors(run)
    now = [Span(began, max(began, run.read_at), gangs[-1])] if began is not None and gangs else []
    return sorted([*_spans_of_attempts(run), *now, *_spans_alone(run)], key=lambda span: span.began)


def windows(run: RunFiles) -> list[Window]:
    """Each start of the run, in order of time."""
    return sorted({*_windows_of_supervisors(run), *(span.window for span in _spans_alone(run))})


def wall(run: RunFiles) -> Window | None:
    """When the run began and ended, or when it was last seen; None: not known."""
    every = windows(run)
    if every:
        return Window(every[0].began, max(each.ended for each in every))
    begins, last = [at for at in (*run.event_starts, run.train.began) if at], _last_seen(run)
    return Window(min(begins), last) if begins and last else None


def starts_alone(run: RunFiles) -> list[float]:
    """When trainers began that no supervisor has started, seconds since the epoch."""
    gangs = _windows_of_supervisors(run)
    return [at for at in run.event_starts if not any(each.began - _EARLY_SECS <= at <= each.ended for each in gangs)]


def attempt_now(run: RunFiles) -> float | None:
    """When the attempt of the gang that goes on began; None: there is none, or the next one is waited for."""
    if not run.holders.cluster or run.report or not run.starts:
        return None
    ended = [attempt.get('attempt') for attempt in run.starts[-1]['attempts']]
    return None if run.status.get('attempt') in ended else real(run.status.get('attempt_started'))


def _supervisors(run: RunFiles) -> list[tuple[Mapping[str, Any], Window]]:
    """Each start of a supervisor, with its window; without those of which a time is missing."""
    known = []
    for start in run.starts:
        began, secs = real(start.get('started')), real(start.get('secs'))
        if secs is None and run.holders.cluster and start is run.starts[-1]:
            secs = max(0.0, run.read_at - (began or 0.0))
        if began is not None and secs is not None:
            known.append((start, Window(began, began + secs)))
    return known


def _windows_of_supervisors(run: RunFiles) -> list[Window]:
    return [window for _, window in _supervisors(run)]


def _spans_of_attempts(run: RunFiles) -> list[Span]:
    spans = []
    for start, window in _supervisors(run):
        for attempt in start['attempts']:
            lives = run_starts.chief_lives(attempt)
            for number, (began, ended) in enumerate(lives, 1):
                failed = number < len(lives) or attempt.get('why') not in ('done', 'not drained', 'signalled')
                first, trained = None, None
                if len(lives) == 1:
                    first, step = attempt.get('checkpoint_before') or 0, attempt.get('step')
                    trained = max(0, step - first) if type(step) is int else None
                spans.append(Span(began, ended, window, first, failed, trained))
    return spans


def _spans_alone(run: RunFiles) -> list[Span]:
    """The starts without a supervisor: each is a span, which ends with its last report."""
    gangs, stretches = _windows_of_supervisors(run), run.train.stretches.all
    if not stretches:
        return []
    begins = starts_alone(run)
    if not begins and not gangs:
        begins = [stretches[0].began]
    last_seen, spans = _last_seen(run) or 0.0, []
    for began in begins:
        later = [at for at in (*begins, *(each.began for each in gangs)) if at > began]
        if began > last_seen and not later:
            continue
        following = min(later, default=float('inf'))
        reported = [each.ended for each in stretches if began <= each.ended < following]
        ended = max([began, *reported]) if later else max(last_seen, began)
        spans.append(Span(began, ended, Window(began, ended)))
    return spans


def _last_seen(run: RunFiles) -> float | None:
    """When the files of the trainer were written last, seconds since the epoch."""
    times = (real(run.training.get('time')), run.train.ended, *(log.ended for log in run.evaluations.values()))
    return max(filter(None, times), default=None)
