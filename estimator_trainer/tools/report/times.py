"""Where the time of a run went, as far as its files say. Pure.

metrics.jsonl has the time of every report, and report.json that of every attempt. What lies between them is put down to
the one thing that happens then; what cannot be told apart has one name for all of it.
"""

from typing import NamedTuple

import numpy as np

from estimator_trainer.tools.report import spans
from estimator_trainer.tools.report.curves import Stretch
from estimator_trainer.tools.report.run_files import RunFiles


class Part(NamedTuple):
    name: str
    secs: float
    text: str


_WAITS = {  # what metrics.jsonl may say of every report
    'input_wait_secs': ('waiting for input', 'time in which a step had to wait for its batch (chief)'),
    'peer_wait_secs': (
        'waiting for workers',
        'time in which a step had to wait for gradients of other workers (chief)',
    ),
}


def parts(run: RunFiles) -> list[Part]:
    """The parts, which add up to the time of the run; [] where too little is known."""
    usual_secs, every, wall = secs_per_step(run), spans.spans(run), spans.wall(run)
    if not usual_secs or not every or not wall:
        return []
    starting = max(0.0, every[0].began - wall.began)  # of the supervisor
    training = failing = waiting = away = 0.0
    after = max(0.0, wall.ended - every[-1].ended)
    steps = again = lines = 0
    for span in every:
        inside = [each for each in run.train.stretches.all if span.holds(each)]
        began, ended, trained = _trained(span, inside, usual_secs, _interval(run))
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
    every_part = [
        Part('starting', starting, 'importing TensorFlow, reading data, building the graph, finding the other tasks'),
        Part('steps', usual - again_secs, f'{steps - lost:,} steps at their usual pace{with_input}'),
        Part('steps that were lost', again_secs, f'{lost:,} steps that were trained, not saved, and trained again'),
        *waits,
        Part(
            'pauses between steps',
            pauses,
            f'checkpoints, evaluations in the same process{for_peers}: time beyond the usual pace',
        ),
        Part('failures', failing, 'from the last report of an attempt that failed until its tasks had ended'),
        Part('waiting to restart', waiting, 'between two attempts'),
        Part('between two starts', away, 'from the end of a start of the run until it was started again'),
        Part('after the last step', after, 'the last evaluation and the exports, and the end of the tasks'),
    ]
    return [part for part in every_part if part.secs >= 0.05]


def _trained(span: spans.Span, inside: list[Stretch], usual_secs: float, interval: int) -> tuple[float, float, int]:
    """When a span's steps began and ended, and how many there were.

    Args:
        usual_secs: of a step.
        interval: steps between two reports.
    """
    if not inside:  # it ended before its first report
        steps = span.trained or 0
        return max(span.began, span.ended - steps * usual_secs), span.ended, steps
    first = span.first if span.first is not None and span.first <= inside[0].first else inside[0].first - interval
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


def _interval(run: RunFiles) -> int:
    every = run.flags.get('log_every_steps')
    return every if type(every) is int else 0
