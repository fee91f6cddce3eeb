"""What happened when: a lane for each task, and events in words. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from estimator_trainer import exit_codes
from estimator_trainer.run_dir import run_starts, run_verdict
from estimator_trainer.run_dir.protocol import objects, real
from estimator_trainer.tools.report import attempts, times
from estimator_trainer.tools.report.attempts import Bar, Event, Lane, Mark, Story
from estimator_trainer.tools.report.run_files import RunFiles
from estimator_trainer.tools.reporting import duration, number, whole

_MOST_EVENTS = 200
_MOST_MARKS = 300  # of evaluations and checkpoints on a lane
_NEVER = float('inf')


class Timeline(NamedTuple):
    began: float  # seconds since the epoch
    ended: float
    lanes: tuple[Lane, ...]
    events: tuple[Event, ...]
    left_out: int  # events


def timeline(run: RunFiles) -> Timeline | None:
    """The timeline of a run; None where no time is known."""
    story = Story()
    _tell_gangs(run, story)
    chief, alone = _chief(run, story.lanes), times.starts_alone(run)
    if alone or not story.lanes:
        _tell_alone(run, story, story.lane(chief), alone)
    _tell_work(run, story, story.lane(chief))
    _tell_end(run, story)
    lanes, events = tuple(story.lanes.values()), sorted(story.events, key=lambda event: event.at)
    known = [at for lane in lanes for bar in lane.bars for at in (bar.began, bar.ended)]
    known += [mark.at for lane in lanes for mark in lane.marks if mark.kind == attempts.EVALUATION]
    known += [event.at for event in events]
    if not known:
        return None
    for lane in lanes:  # the files of a copied run have the time of the copy
        lane.marks = [mark for mark in lane.marks if min(known) <= mark.at <= max(known) + 1]
    left_out = max(0, len(events) - _MOST_EVENTS)
    if left_out:
        del events[_MOST_EVENTS // 2 : _MOST_EVENTS // 2 + left_out]
    return Timeline(min(known), max(known), lanes, tuple(events), left_out)


def _tell_gangs(run: RunFiles, story: Story) -> None:
    """What supervisors have started, and trainers alone that have recorded it."""
    title, every = 'Attempt', times.windows(run)
    for start in run.starts:
        if isinstance(start.get(run_starts.ALONE), str):
            name = 'The run' if len(every) < 2 and start['start'] == 1 else f'Start {start["start"]}'
            story.add_alone(start, name, start['started'] <= every[0].began, run.read_at)
            continue
        title = f'Start {start["start"]}, attempt' if run.starts[-1]['start'] > 1 else 'Attempt'
        for attempt in start['attempts']:
            first = start['start'] == attempt.get('attempt') == 1
            story.add(attempt, f'{title} {attempt.get("attempt")}', first)
        if start is not run.starts[-1]:
            _tell_end_of_start(start, f'Start {start["start"]}', story)
    began = times.attempt_now(run)
    if began is None or run.starts[-1].get(run_starts.ALONE) or not isinstance(run.status.get('tasks'), list):
        return
    story.tell_begin(run.status, began, f'{title} {run.status.get("attempt")}')
    for task in objects(run.status['tasks']):
        if task.get('state') != 'not started':
            lane = story.lane(task.get('name'))
            lane.marks.append(Mark(began, attempts.RESTART if run.attempts else attempts.START))
            lane.bars.append(Bar(began, real(run.status.get('time')) or began, attempts.RUNS))


def _tell_alone(run: RunFiles, story: Story, lane: Lane, starts: list[float]) -> None:
    """Adds processes without a supervisor: it is known when they began, and when they trained.

    `starts`: when they began; [] where only their reports tell.
    """
    stretches, every = run.train.stretches.all, [each.began for each in times.windows(run)]
    starts = starts or [each.began for each in stretches[:1]]
    last_seen = real(run.training.get('time')) or run.train.ended
    code = run_verdict.exit_code(run.training)
    for start in starts:
        is_first, following = (
            start <= min(every, default=start),
            min((at for at in every if at > start), default=_NEVER),
        )
        last = max([start, *(each.ended for each in stretches if start <= each.ended < following)])
        if following == _NEVER and last_seen:
            last = max(last, last_seen)
        lane.bars.append(Bar(start, last, attempts.RUNS))
        lane.marks.append(Mark(start, attempts.START if is_first else attempts.RESTART))
        if code is not None and following == _NEVER:
            lane.marks.append(Mark(last, attempts.STOPPED if exit_codes.was_stopped(code) else attempts.FAILED))
        step = next((each.first for each in stretches if start <= each.began < following), None)
        to = f', and reported step {step:,} first' if step is not None else ''
        story.tell(start, f'The trainer {"began" if is_first else "began again"}{to}.')
    again = run.train.stretches.steps_again
    if again and not run.starts:
        story.tell(starts[-1], f'About {again:,} steps were trained a second time after restarts.', True)


def _tell_work(run: RunFiles, story: Story, lane: Lane) -> None:
    """Adds what the chief has trained and saved, what was evaluated, and what followed from that."""
    lane.bars += [Bar(each.began, each.ended, attempts.TRAINS) for each in run.train.stretches.all]
    lane.marks += [Mark(each.time, attempts.CHECKPOINT) for each in run.checkpoints[-_MOST_MARKS:] if each.time]
    evaluator = next((each for name, each in story.lanes.items() if name.startswith('evaluator')), lane)
    for log in run.evaluations.values():
        at = log.clock.points().values
        evaluator.marks += [
            Mark(each, attempts.EVALUATION) for each in at[:: max(1, -(-len(at) // _MOST_MARKS))].tolist()
        ]
    best, stop, log = run.best.get('step'), run.stop, run.evaluations.get('eval')
    if log and type(best) is int:
        points = log.clock.points()
        near = [float(at) for step, at in zip(points.steps, points.values) if abs(step - best) <= log.clock.width]
        if near:
            evaluator.marks.append(Mark(near[-1], attempts.BEST))
            what = f'{run.best.get("metric")} {number(real(run.best.get("value")))}'
            story.tell(near[-1], f'The best evaluation: {what} at step {best:,}. Its model is in export/best.')
    if log and log.ended and stop.get('why'):
        story.tell(log.ended, f'Training was ended early at step {whole(stop.get("step"))}: {stop["why"]}.')
    elif log and log.ended and stop:
        said = f'{stop.get("metric")} has not improved on {number(real(stop.get("best")))}'
        story.tell(log.ended, f'Early stopping was decided: {said} of step {stop.get("best_step")}.')


def _tell_end_of_start(start: Mapping, name: str, story: Story) -> bool:
    """Adds how a supervisor has ended. Whether it has said so."""
    ended, code = real(start.get('ended')), start.get('exit_code')
    if ended is None or type(code) is not int:
        return False
    restarts, alone = start.get('restarts') or 0, run_starts.task_restarts(start)
    counts = ((restarts, 'all tasks'), (alone, 'a single task' if alone == 1 else 'single tasks'))
    often = ''.join(f' and {count} restart{"s" if count > 1 else ""} of {of}' for count, of in counts if count)
    took = duration(real(start.get('secs')) or 0)
    text = f'{name} ended after {took}{often}: {exit_codes.describe(code).partition(";")[0]} (exit code {code}).'
    story.tell(ended, text, code != exit_codes.OK and not exit_codes.was_stopped(code))
    return True


def _tell_end(run: RunFiles, story: Story) -> None:
    if run.starts:
        last, every = run.starts[-1], times.windows(run)
        if last.get(run_starts.ALONE):
            return
        name = 'The run' if len(every) < 2 and last['start'] == 1 else f'Start {last["start"]}'
        if _tell_end_of_start(last, name, story) and every and every[-1].began == last['started']:
            return
    at, code, step = (
        real(run.training.get('time')),
        run_verdict.exit_code(run.training),
        whole(run.training.get('step')),
    )
    state = run.training.get('state')
    if at and code is not None and not exit_codes.was_stopped(code):
        left, meaning = run.training['exit'], exit_codes.describe(code).partition(';')[0]
        text = f'The run ended at step {step} with exit code {code} ({meaning}).'
        story.tell(at, text, True, (f'It says: {left.get("message")}',), attempts.traceback(left))
    elif at and state in ('ended', 'stopped'):
        ended = f'The run ended at step {step}: {run_verdict.why(run.training.get("why"))}.'
        story.tell(at, ended if state == 'ended' else f'Training was stopped at step {step}.')


def _chief(run: RunFiles, lanes: Mapping[str, Lane]) -> str:
    cluster: Any = run.config.get('cluster')
    named = [f'{role}:0' for role in ('chief', 'worker') if isinstance(cluster, dict) and cluster.get(role)]
    return next((name for name in ('chief:0', 'worker:0') if name in lanes), None) or next(iter(named), 'trainer')
