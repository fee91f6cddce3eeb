"""When processes trained, and where the time of a run went, as far as its files say. Pure.

A span goes from a start of the process that reports the steps (the chief, or the trainer alone) to its end, as
report.json, status.json, earlier_starts.json and the names of files of events tell it. A run may be started again and
again: by a supervisor, whose attempts are spans, or as a trainer alone.

metrics.jsonl has the time of every report. What lies between the times is put down to the one thing that happens then;
what cannot be told apart has one name for all of it.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from estimator_trainer.run_dir import run_starts
from estimator_trainer.run_dir.protocol import real
from estimator_trainer.tools.report.curves import Stretch
from estimator_trainer.tools.report.run_files import RunFiles

_EARLY_SECS = 1.0  # the name of a file of events has whole seconds
_NEVER = float('inf')
_WAITS = {  # what metrics.jsonl may say of every report
    'input_wait_secs': ('waiting for input', 'time in which a step had to wait for its batch (chief)'),
    'peer_wait_secs': (
        'waiting for workers',
        'time in which a step had to wait for gradients of other workers (chief)',
    ),
}


class Window(NamedTuple):
    """A start of the run, from its beginning to its end, seconds since the epoch."""

    began: float
    ended: float

    @property
    def secs(self) -> float:
        return self.ended - self.began


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


class Part(NamedTuple):
    name: str
    secs: float
    text: str


def spans(run: RunFiles) -> list[Span]:
    """The spans of a run, in order of time."""
    supervised, every = _recorded(run), _spans_alone(run)
    for start, window in supervised:
        every += [span for attempt in start['attempts'] for span in _spans_of(attempt, window)]
    began = attempt_now(run)
    if began is not None and supervised:
        every.append(Span(began, max(began, run.read_at), supervised[-1][1], _first_now(run)))
    return sorted(every, key=lambda span: span.began)


def windows(run: RunFiles) -> list[Window]:
    """Each start of the run, in order of time."""
    return sorted({*(window for _, window in _recorded(run)), *(span.window for span in _spans_alone(run))})


def wall(run: RunFiles) -> Window | None:
    """When the run began and ended, or when it was last seen; None: not known."""
    every = windows(run)
    if every:
        return Window(every[0].began, max(each.ended for each in every))
    begins, last = [at for at in (*run.event_starts, run.train.began) if at], _last_seen(run)
    return Window(min(begins), last) if begins and last else None


def starts_alone(run: RunFiles) -> list[float]:
    """When trainers began whose start nobody has recorded, seconds since the epoch."""
    gangs = [window for _, window in _recorded(run)]
    return [at for at in run.event_starts if not any(each.began - _EARLY_SECS <= at <= each.ended for each in gangs)]


def attempt_now(run: RunFiles) -> float | None:
    """When the attempt that goes on began; None: there is none, or the next one is waited for."""
    if _is_under_way(run):
        return real(run.starts[-1]['started'])
    if not run.holders.cluster or run.report or not run.starts:
        return None
    ended = [attempt.get('attempt') for attempt in run.starts[-1]['attempts']]
    return None if run.status.get('attempt') in ended else real(run.status.get('attempt_started'))


def _is_under_way(run: RunFiles) -> bool:
    """Whether the last start is of a trainer alone that lives."""
    return bool(run.starts) and isinstance(run.starts[-1].get(run_starts.UNDER_WAY), dict)


def _first_now(run: RunFiles) -> int | None:
    """The step that such a trainer went on from."""
    return (run.starts[-1][run_starts.UNDER_WAY].get('checkpoint_before') or 0) if _is_under_way(run) else None


def _recorded(run: RunFiles) -> list[tuple[Mapping[str, Any], Window]]:
    """Each start that is recorded, with its window; without those of which a time is missing."""
    known = []
    for start in run.starts:
        began, secs = real(start.get('started')), real(start.get('secs'))
        if secs is None and start is run.starts[-1] and (run.holders.cluster or _is_under_way(run)):
            secs = max(0.0, run.read_at - (began or 0.0))
        if began is not None and secs is not None:
            known.append((start, Window(began, began + secs)))
    return known


def _spans_of(attempt: Mapping[str, Any], window: Window) -> list[Span]:
    lives = run_starts.chief_lives(attempt)
    first, trained = None, None
    if len(lives) == 1:
        first, step = attempt.get('checkpoint_before') or 0, attempt.get('step')
        trained = max(0, step - first) if type(step) is int else None
    fails = attempt.get('why') not in ('done', 'not drained', 'signalled')
    return [Span(*life, window, first, fails or life is not lives[-1], trained) for life in lives]


def _spans_alone(run: RunFiles) -> list[Span]:
    """The starts that nobody has recorded: each is a span, which ends with its last report."""
    gangs, stretches = [window.began for _, window in _recorded(run)], run.train.stretches.all
    begins = starts_alone(run) if stretches else []
    if stretches and not begins and not gangs:
        begins = [stretches[0].began]
    last_seen, found = _last_seen(run) or 0.0, []
    for began in begins:
        following = min((at for at in (*begins, *gangs) if at > began), default=_NEVER)
        if following < _NEVER:
            ended = max([began, *(each.ended for each in stretches if began <= each.ended < following)])
        elif began > last_seen:
            continue
        else:
            ended = last_seen
        found.append(Span(began, ended, Window(began, ended)))
    return found


def _last_seen(run: RunFiles) -> float | None:
    """When the files of the trainer were written last, seconds since the epoch."""
    times = (real(run.training.get('time')), run.train.ended, *(log.ended for log in run.evaluations.values()))
    return max(filter(None, times), default=None)


def parts(run: RunFiles) -> list[Part]:
    """The parts, which add up to the time of the run; [] where too little is known."""
    usual_secs, every, whole = secs_per_step(run), spans(run), wall(run)
    if not usual_secs or not every or not whole:
        return []
    starting = max(0.0, every[0].began - whole.began)  # of the supervisor
    training = failing = waiting = away = 0.0
    after = max(0.0, whole.ended - every[-1].ended)
    steps = again = lines = 0
    for span in every:
        inside = [each for each in run.train.stretches.all if span.began <= each.began <= span.ended]
        began, ended, trained = _trained(span, inside, usual_secs, run.flags.get('log_every_steps'))
        lines, again = lines + sum(each.lines for each in inside), again + sum(each.again for each in inside)
        starting, training, steps = starting + began - span.began, training + ended - began, steps + trained
        failing += span.ended - ended if span.failed else 0.0
        after += 0.0 if span.failed else span.ended - ended
    for before, following in zip(every, every[1:]):
        if before.window == following.window:
            waiting += max(0.0, following.began - before.ended)
        elif before.ended < following.began:
            ended = min(max(before.ended, before.window.ended), following.began)
            began = max(min(following.began, following.window.began), ended)
            after, away = after + ended - before.ended, away + began - ended
            starting += following.began - began
    lost = sum(each['steps_lost'] for each in run.attempts if type(each.get('steps_lost')) is int)
    lost = min(max(lost, again), steps)
    usual = min(training, steps * usual_secs)
    share = lines / run.train.lines if run.train.lines else 0.0  # the file may have lines of an earlier cluster
    usual, pauses, waits = _without_waits(run, usual, training - usual, share)
    with_input, for_peers = ('', '') if waits else (', which includes their input', ', waiting for peers or data')
    again_secs = usual * lost / steps if steps else 0.0
    beyond = f'checkpoints, evaluations in the same process{for_peers}: time beyond the usual pace'
    every_part = [
        Part(
            'starting',
            starting,
            'importing TensorFlow, reading data, building the graph; in a cluster, finding the other tasks',
        ),
        Part('steps', usual - again_secs, f'{steps - lost:,} steps at their usual pace{with_input}'),
        Part('steps that were lost', again_secs, f'{lost:,} steps that were trained, not saved, and trained again'),
        *waits,
        Part('pauses between steps', pauses, beyond),
        Part('failures', failing, 'from the last report of an attempt that failed until its tasks had ended'),
        Part('waiting to restart', waiting, 'between two attempts'),
        Part('between two starts', away, 'from the end of a start of the run until it was started again'),
        Part('after the last step', after, 'the last evaluation and the exports, and the end of the tasks'),
    ]
    return [part for part in every_part if part.secs >= 0.05]


def _trained(span: Span, inside: list[Stretch], usual_secs: float, interval: Any) -> tuple[float, float, int]:
    """When a span's steps began and ended, and how many there were.

    Args:
        usual_secs: of a step.
        interval: steps between two reports, as the flag says it.
    """
    if not inside:  # it ended before its first report
        steps = span.trained or 0
        return max(span.began, span.ended - steps * usual_secs), span.ended, steps
    first = inside[0].first - (interval if type(interval) is int else 0)
    if span.first is not None and span.first <= inside[0].first:
        first = span.first
    before = inside[0].first - max(0, first)
    steps = before + sum(each.last - each.first for each in inside)
    steps += sum(max(0, b.first - a.last) for a, b in zip(inside, inside[1:]))
    began = max(span.began, inside[0].began - before * usual_secs)
    return began, max(began, min(inside[-1].ended, span.ended)), steps


def _without_waits(run: RunFiles, usual: float, pauses: float, share: float) -> tuple[float, float, list[Part]]:
    """(time of steps at their usual pace, time beyond it, the waits that both have had in them).

    A wait as long as that of most reports is part of the usual pace. `share`: of the reports that count.
    """
    waits = []
    for field, (name, text) in _WAITS.items():
        series = run.train.series.get(field)
        if series is None or not series.count:
            continue
        total = series.total * share
        as_usual = min(total, float(np.median(series.points().values)) * series.count * share, usual)
        beyond = min(max(0.0, total - as_usual), pauses)
        usual, pauses = usual - as_usual, pauses - beyond
        waits.append(Part(name, as_usual + beyond, text))
    return usual, pauses, waits


def secs_per_step(run: RunFiles) -> float | None:
    """The usual seconds of a step: the median of the time between reports of one process, by step. Where no process has
    reported twice, as the processes have measured it."""
    points = run.train.clock.points()
    advances, waits = np.diff(points.steps), np.diff(points.values)
    stretch = np.searchsorted([each.began for each in run.train.stretches.all], points.values, side='right')
    good = (advances > 0) & (waits > 0) & (np.diff(stretch) == 0)
    if good.any():
        return float(np.median(waits[good] / advances[good]))
    rates, batch = run.train.series.get('examples_per_sec'), run.config.get('global_batch_size')
    if rates is None or not rates.count or type(batch) is not int:
        return None
    rate = float(np.median(rates.points().values))
    return batch / rate if rate > 0 else None
