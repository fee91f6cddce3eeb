"""Where the time of a run went, as far as its files say. Pure.

metrics.jsonl has the time of every report, and report.json that of every attempt. What lies between them is put down to
the one thing that happens then; what cannot be told apart has one name for all of it.
"""

from typing import NamedTuple

import numpy as np

from estimator_trainer.tools.report.run_facts import RunFiles


class Part(NamedTuple):
    name: str
    secs: float
    text: str


_WAITS = {  # what metrics.jsonl may tell of every report
    'input_wait_secs': ('waiting for input', 'time in which a step had to wait for its batch (chief)'),
    'peer_wait_secs': (
        'waiting for workers',
        'time in which a step had to wait for gradients of other workers (chief)',
    ),
}


class _Span(NamedTuple):
    """From a start of the training processes to their end."""

    began: float
    ended: float
    first: int | None  # the step that it went on from
    failed: bool


def of(run: RunFiles) -> list[Part]:
    """The parts, which add up to the time of the run; [] where too little is known."""
    pace, spans = secs_per_step(run), _spans(run)
    if not pace or not spans:
        return []
    starting = training = after = failing = 0.0
    steps = 0
    for span in spans:
        inside = [each for each in run.train.stretches.found if span.began <= each.began <= span.ended]
        if not inside:
            starting += span.ended - span.began
            continue
        from_step = span.first if span.first is not None else max(0, inside[0].first - _interval(run))
        before = min(max(0, inside[0].first - from_step) * pace, inside[0].began - span.began)
        begins, ends = inside[0].began - before, min(inside[-1].ended, span.ended)
        starting += max(0.0, begins - span.began)
        training += max(0.0, ends - begins)
        steps += sum(each.last - each.first for each in inside) + max(0, inside[0].first - from_step)
        failing, after = (failing + span.ended - ends, after) if span.failed else (failing, after + span.ended - ends)
    waiting = sum(max(0.0, b.began - a.ended) for a, b in zip(spans, spans[1:]))
    lost = sum(each['steps_lost'] for each in run.attempts if type(each.get('steps_lost')) is int)
    lost = min(max(lost, run.train.stretches.steps_again), steps)
    usual = min(training, steps * pace)
    usual, pauses, waits = _without_waits(run, usual, training - usual)
    with_input, for_peers = ('', '') if waits else (', which includes their input', ', waiting for peers or data')
    again = usual * lost / steps if steps else 0.0
    parts = [
        Part('starting', starting, 'importing TensorFlow, reading data, building the graph, finding the other tasks'),
        Part('steps', usual - again, f'{steps - lost:,} steps at their usual pace{with_input}'),
        Part('steps that were lost', again, f'{lost:,} steps that were trained, not saved, and trained again'),
        *waits,
        Part(
            'pauses between steps',
            pauses,
            f'checkpoints, evaluations in the same process{for_peers}: time beyond the usual pace',
        ),
        Part('failures', failing, 'from the last report of an attempt that failed until its tasks had ended'),
        Part('waiting to restart', waiting, 'between two attempts'),
        Part('after the last step', after, 'the last evaluation and the exports, and the end of the tasks'),
    ]
    return [part for part in parts if part.secs >= 0.05]


def _without_waits(run: RunFiles, usual: float, pauses: float) -> tuple[float, float, list[Part]]:
    """(time of steps at their usual pace, time beyond it, the waits that both have had in them).

    A wait as long as that of most reports is part of the usual pace.
    """
    found = []
    for field, (name, text) in _WAITS.items():
        series = run.train.series.get(field)
        if series is None or not series.count:
            continue
        as_usual = min(series.total, float(np.median(series.points().values)) * series.count, usual)
        beyond = min(max(0.0, series.total - as_usual), pauses)
        usual, pauses = usual - as_usual, pauses - beyond
        found.append(Part(name, as_usual + beyond, text))
    return usual, pauses, found


def secs_per_step(run: RunFiles) -> float | None:
    """The usual seconds of a step: the median of the time between reports, by step."""
    points = run.train.clock.points()
    advances, waits = np.diff(points.steps), np.diff(points.values)
    good = (advances > 0) & (waits > 0)
    return float(np.median(waits[good] / advances[good])) if good.any() else None


def _interval(run: RunFiles) -> int:
    every = run.flags.get('log_every_steps')
    return every if type(every) is int else 0


def _spans(run: RunFiles) -> list[_Span]:
    if run.attempts:
        found = [
            _Span(each['started'], each['started'] + each['secs'], each.get('checkpoint_before') or 0, _failed(each))
            for each in run.attempts
            if type(each.get('started')) in (int, float) and type(each.get('secs')) in (int, float)
        ]
        now = run.status.get('attempt_started')
        if run.alive.cluster and not run.report and type(now) is float:
            found.append(_Span(now, run.read_at, None, False))
        return found
    stretches, last = run.train.stretches.found, run.training.get('time') or run.train.ended
    if not stretches or last is None:
        return []
    starts = sorted(start for start in run.starts if start <= last) or [stretches[0].began]
    ends = []
    for start, following in zip(starts, [*starts[1:], None]):
        seen = [each.ended for each in stretches if following is None or each.ended < following]
        ends.append(max([start, *seen]) if following is not None else max(last, start))
    return [_Span(start, end, None, False) for start, end in zip(starts, ends)]


def _failed(attempt) -> bool:
    return attempt.get('why') not in ('done', 'not drained', 'signalled')
