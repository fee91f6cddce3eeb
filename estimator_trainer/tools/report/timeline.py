"""What happened when: a lane for each task, and events in words. Pure."""

from collections.abc import Mapping
from typing import Any

from estimator_trainer import exit_codes
from estimator_trainer.run_dir import run_verdict
from estimator_trainer.run_dir.protocol import real
from estimator_trainer.tools.report import attempts, spans
from estimator_trainer.tools.report.lanes import (
    BEST,
    CHECKPOINT,
    EVALUATION,
    FAILED,
    RESTART,
    RUNS,
    START,
    STOPPED,
    TRAINS,
    Bar,
    Event,
    Lane,
    Mark,
    Timeline,
)
from estimator_trainer.tools.report.run_files import RunFiles
from estimator_trainer.tools.report.words import duration, number, whole

_MOST_EVENTS = 200
_MOST_MARKS = 300  # of evaluations and checkpoints on a lane


def timeline(run: RunFiles) -> Timeline | None:
    """The timeline of a run; None where no time is known."""
    lanes: dict[str, Lane] = {}
    events: list[Event] = []
    _gangs(run, lanes, events)
    chief, alone = _chief(run, lanes), spans.starts_alone(run)
    if alone or not lanes:
        _alone(run, lanes.setdefault(chief, Lane(chief)), events, alone)
    _work(run, lanes, chief, events)
    _end(run, events)
    times = [bar.began for lane in lanes.values() for bar in lane.bars]
    times += [bar.ended for lane in lanes.values() for bar in lane.bars] + [event.at for event in events]
    times += [mark.at for lane in lanes.values() for mark in lane.marks if mark.kind == EVALUATION]
    if not times:
        return None
    for lane in lanes.values():  # the files of a copied run have the time of the copy
        lane.marks = [mark for mark in lane.marks if min(times) <= mark.at <= max(times) + 1]
    events.sort(key=lambda event: event.at)
    kept = events
    if len(events) > _MOST_EVENTS:
        kept = [*events[: _MOST_EVENTS // 2], *events[-_MOST_EVENTS // 2 :]]
    return Timeline(min(times), max(times), tuple(lanes.values()), tuple(kept), len(events) - len(kept))


def _gangs(run: RunFiles, lanes: dict[str, Lane], events: list[Event]) -> None:
    """What supervisors have started."""
    gangs = run.starts
    for start in gangs:
        of_start = f'Start {start["start"]}, attempt' if gangs[-1]['start'] > 1 else 'Attempt'
        for attempt in start['attempts']:
            name, first = f'{of_start} {attempt.get("attempt")}', start['start'] == attempt.get('attempt') == 1
            attempts.add(attempt, lanes, events, name, first)
        if start is not gangs[-1]:
            _end_of_start(start, f'Start {start["start"]}', events)
    if spans.attempt_now(run) is not None:
        _now(run, spans.attempt_now(run), f'{of_start} {run.status.get("attempt")}', lanes, events)


def _now(run: RunFiles, began: float, name: str, lanes: dict[str, Lane], events: list[Event]) -> None:
    """The tasks of the attempt that goes on."""
    tasks = run.status.get('tasks')
    if not isinstance(tasks, list):
        return
    events.append(attempts.begin(run.status, began, name))
    for task in tasks:
        if isinstance(task, dict) and task.get('state') != 'not started':
            lane = lanes.setdefault(str(task.get('name')), Lane(str(task.get('name'))))
            lane.marks.append(Mark(began, RESTART if run.attempts else START))
            lane.bars.append(Bar(began, real(run.status.get('time')) or began, RUNS))


def _alone(run: RunFiles, lane: Lane, events: list[Event], starts: list[float]) -> None:
    """Adds processes without a supervisor: it is known when they began, and when they trained.

    `starts`: when they began; [] where only their reports tell.
    """
    stretches, every = run.train.stretches.all, [each.began for each in spans.windows(run)]
    starts = starts or [each.began for each in stretches[:1]]
    last_seen = real(run.training.get('time')) or run.train.ended
    code = run_verdict.exit_code(run.training)
    for start in starts:
        number_ = sum(at < start for at in every)
        following = min((at for at in every if at > start), default=float('inf'))
        seen = [each.ended for each in stretches if start <= each.ended < following]
        last = max(seen, default=start)
        if following == float('inf') and last_seen:
            last = max(last, last_seen)
        lane.bars.append(Bar(start, last, RUNS))
        lane.marks.append(Mark(start, RESTART if number_ else START))
        if code is not None and following == float('inf'):
            lane.marks.append(Mark(last, STOPPED if exit_codes.was_stopped(code) else FAILED))
        step = next((each.first for each in stretches if start <= each.began < following), None)
        to = f', and reported step {step:,} first' if step is not None else ''
        events.append(Event(start, f'The trainer {"began again" if number_ else "began"}{to}.'))
    if run.train.stretches.steps_again and not run.starts:
        again = run.train.stretches.steps_again
        events.append(Event(starts[-1], f'About {again:,} steps were trained a second time after restarts.', True))


def _work(run: RunFiles, lanes: dict[str, Lane], chief: str, events: list[Event]) -> None:
    lane = lanes.setdefault(chief, Lane(chief))
    for each in run.train.stretches.all:
        lane.bars.append(Bar(each.began, each.ended, TRAINS))
    for each in run.checkpoints[-_MOST_MARKS:]:
        if each.time:
            lane.marks.append(Mark(each.time, CHECKPOINT))
    evaluator = next((name for name in lanes if name.startswith('evaluator')), chief)
    for log in run.evaluations.values():
        points = log.clock.points()
        times = points.values[:: max(1, -(-len(points.values) // _MOST_MARKS))]
        lanes[evaluator].marks += [Mark(float(at), EVALUATION) for at in times]
    best = run.best.get('step')
    log = run.evaluations.get('eval')
    if type(best) is int and log:
        points = log.clock.points()
        near = [float(at) for step, at in zip(points.steps, points.values) if abs(step - best) <= log.clock.width]
        if near:
            lanes[evaluator].marks.append(Mark(near[-1], BEST))
            what = f'{run.best.get("metric")} {number(real(run.best.get("value")))}'
            events.append(
                Event(near[-1], f'The best evaluation: {what} at step {best:,}. Its model is in export/best.')
            )
    if run.stop.get('why') and log and log.ended:
        events.append(
            Event(log.ended, f'Training was ended early at step {whole(run.stop.get("step"))}: {run.stop["why"]}.')
        )
    elif run.stop and log and log.ended:
        said = f'{run.stop.get("metric")} has not improved on {number(real(run.stop.get("best")))}'
        events.append(Event(log.ended, f'Early stopping was decided: {said} of step {run.stop.get("best_step")}.'))


def _end_of_start(start: Mapping, name: str, events: list[Event]) -> bool:
    """Adds how a supervisor has ended. Whether it has said so."""
    ended, code = real(start.get('ended')), start.get('exit_code')
    if ended is None or type(code) is not int:
        return False
    restarts = start.get('restarts') or 0
    often = f' and {restarts} restart{"s" if restarts > 1 else ""} of all tasks' if restarts else ''
    took = duration(real(start.get('secs')) or 0)
    text = f'{name} ended after {took}{often}: {exit_codes.describe(code).partition(";")[0]} (exit code {code}).'
    events.append(Event(ended, text, bad=code != exit_codes.OK and not exit_codes.was_stopped(code)))
    return True


def _end(run: RunFiles, events: list[Event]) -> None:
    gangs, every = run.starts, spans.windows(run)
    if gangs:
        is_only, is_last = len(every) < 2, bool(every) and every[-1].began == gangs[-1]['started']
        name = 'The run' if is_only and gangs[-1]['start'] == 1 else f'Start {gangs[-1]["start"]}'
        if _end_of_start(gangs[-1], name, events) and is_last:
            return
    code = run_verdict.exit_code(run.training)
    if code is not None and not exit_codes.was_stopped(code) and real(run.training.get('time')):
        left = run.training['exit']
        text = f'The run ended at step {whole(run.training.get("step"))} with exit code {code}'
        meaning = exit_codes.describe(code).partition(';')[0]
        said, lines = (f'It says: {left.get("message")}',), attempts.traceback(left)
        events.append(Event(run.training['time'], f'{text} ({meaning}).', True, said, lines))
    elif run.training.get('state') in ('ended', 'stopped') and real(run.training.get('time')):
        step, why = run.training.get('step'), run.training.get('why')
        how = 'Training was stopped' if run.training['state'] == 'stopped' else f'The run ended ({why})'
        events.append(Event(run.training['time'], f'{how} at step {whole(step)}.'))


def _chief(run: RunFiles, lanes: Mapping[str, Lane]) -> str:
    for name in ('chief:0', 'worker:0'):
        if name in lanes:
            return name
    cluster: Any = run.config.get('cluster')
    if isinstance(cluster, dict) and (cluster.get('chief') or cluster.get('worker')):
        return 'chief:0' if cluster.get('chief') else 'worker:0'
    return 'trainer'
