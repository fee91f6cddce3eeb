"""What the attempts of a gang were, from report.json: lanes of tasks, and events in words. Pure."""

import os
from collections.abc import Mapping, Sequence

from estimator_trainer import error_lines, exit_codes
from estimator_trainer.run_dir import run_starts
from estimator_trainer.run_dir.protocol import objects, real
from estimator_trainer.tools.report.lanes import (
    ENDED,
    FAILED,
    KILLED,
    RESTART,
    RUNS,
    START,
    STOPPED,
    Bar,
    Event,
    Lane,
    Mark,
)
from estimator_trainer.tools.report.words import day, duration, whole

MOST_ROWS = 50  # of the table, the newest


def begin(attempt: Mapping, began: float, title: str) -> Event:
    """That an attempt began. `title`: 'Attempt 2'."""
    step = attempt.get('checkpoint_before')
    where = f'the checkpoint at step {step:,}' if type(step) is int else 'the beginning'
    workers = attempt.get('workers')
    with_whom = f' with {workers} {"worker" if workers == 1 else "workers"}' if workers else ''
    return Event(began, f'{title} began{with_whom}, from {where}.')


def add(attempt: Mapping, lanes: dict[str, Lane], events: list[Event], title: str, first: bool) -> None:
    """Adds what one attempt was to `lanes` and `events`.

    Args:
        title: 'Attempt 2'.
        first: nothing of the run was before it.
    """
    began = real(attempt.get('started'))
    if began is None:
        return
    events.append(begin(attempt, began, title))
    ends: dict[str, float] = {}
    for name in sorted(attempt.get('addresses') or (), key=_order):
        lanes.setdefault(name, Lane(name))
    for task in objects(attempt.get('tasks')):
        name, life, at = str(task.get('name')), task.get('life', 1), began + (real(task.get('secs')) or 0)
        lane = lanes.setdefault(name, Lane(name))
        since = real(task.get('began_secs'))
        start = began + since if since is not None else ends.get(name, began)
        lane.bars.append(Bar(start, at, RUNS))
        lane.marks.append(Mark(start, START if first and life == 1 else RESTART))
        lane.marks.append(Mark(at, _kind(task)))
        if life > 1:
            events.append(Event(start, f'{name} was restarted alone (life {life}).'))
        ends[name] = at
        if task.get('code') and task.get('how') == 'by itself' and not _is_cause(task, attempt):
            events.append(Event(at, f'{name} {_how(task)}.', _kind(task) != STOPPED, _details(task, attempt)))
    _end_of_attempt(attempt, began + (real(attempt.get('secs')) or 0), events, title)


def table(starts: Sequence[Mapping]) -> list[tuple[str, ...]]:
    """Start, attempt, workers, when it began, how long it took, from which step to which, steps lost, how it ended and
    the folder of its logs, of each attempt that has ended; [] where one is all there is.

    `starts`: as RunFolder.starts.
    """
    every = [(start, each) for start in starts for each in start['attempts']]
    rows = []
    for start, each in every if len(every) > 1 else ():
        began, secs, folder = each.get('started'), each.get('secs'), each.get('log_dir')
        first, step = each.get('checkpoint_before'), each.get('step')
        rows.append(
            (
                str(start['start']),
                str(each.get('attempt', '–')),
                whole(each.get('workers')),
                day(real(began)),
                duration(secs) if real(secs) is not None else '–',
                whole(0 if first is None and step is not None else first),  # of a program neither is known
                whole(step),
                whole(each.get('steps_lost')),
                _ending(each),
                os.path.basename(folder) if isinstance(folder, str) else '–',
            )
        )
    return rows


def traceback(record: Mapping) -> tuple[str, ...]:
    """The lines of the traceback in what a task has recorded of its end."""
    lines = record.get('traceback')
    return tuple(map(str, lines)) if isinstance(lines, list) else ()


def _end_of_attempt(attempt: Mapping, at: float, events: list[Event], title: str) -> None:
    cause, lost = attempt.get('cause'), attempt.get('steps_lost')
    if attempt.get('why') in ('done', None):
        return
    said = []
    if isinstance(cause, dict):
        task = next((task for task in objects(attempt.get('tasks')) if _is_cause(task, attempt)), None)
        first = f'{cause.get("task")} {_how(task)}' if task else str(cause.get('text'))
        if cause.get('message'):
            said.append(f'It says: {cause["message"]}')
        if cause.get('out_of_memory'):
            said.append('The kernel has killed a process for want of memory.')
        at_cause = attempt['started'] + (real(task.get('secs')) or 0) if task else at
        text = f'{first}. This was the first failure of the attempt.'
        events.append(Event(at_cause, text, True, tuple(said), traceback(cause)))
    why = {
        'stalled': f'{title} was ended: no step was finished for too long',
        run_starts.LOST: f'{title} ended with its supervisor, which was killed or whose machine went down',
        'signalled': f'The run was told to stop ({attempt.get("signal")})',
        'not drained': 'Training was done, but not all tasks ended in time',
    }.get(str(attempt.get('why')), f'{title} ended')
    step = attempt.get('checkpoint_step')
    after = f'; the last checkpoint is of step {step:,}' if type(step) is int else '; there is no checkpoint'
    what = 'how many steps are lost is not known'
    if type(lost) is int:
        what = f'{lost:,} {"step is" if lost == 1 else "steps are"} lost' if lost else 'no step is lost'
    delay = real(attempt.get('delay_secs'))
    then = f'. The tasks were started again {delay:.1f} s later' if delay is not None else ''
    if delay is None and attempt.get('decision'):
        then = f'. No restart: {attempt["decision"]}'
    bad = bool(lost) or (delay is None and bool(attempt.get('decision'))) or attempt['why'] == run_starts.LOST
    events.append(Event(at, f'{why}: {what}{after}{then}.', bad))


def _ending(attempt: Mapping) -> str:
    why, cause = str(attempt.get('why')), attempt.get('cause')
    if why == 'signalled':
        return f'told to stop ({attempt.get("signal")})'
    if why == 'stalled':
        return 'no step was finished for too long'
    if why == run_starts.LOST:
        return 'its supervisor was killed'
    if isinstance(cause, dict):
        said = cause.get('message')
        named = f'{cause.get("task")}, exit code {cause.get("code")}: {error_lines.short(str(said))}'
        return named if said else str(cause.get('text'))
    return 'training was done, but not all tasks ended in time' if why == 'not drained' else why


def _kind(task: Mapping) -> str:
    if task.get('code') == 0:
        return ENDED
    if task.get('code') in exit_codes.SYMPTOMS:
        return STOPPED
    if task.get('how') in ('stopped by the supervisor', 'killed by the supervisor'):
        return STOPPED
    return KILLED if task.get('signal') or task.get('how') == run_starts.WITH_SUPERVISOR else FAILED


def _how(task: Mapping) -> str:
    life = f' (life {task["life"]})' if task.get('life', 1) != 1 else ''
    if task.get('how') == 'could not be started':
        return f'could not be started{life}'
    if task.get('signal'):
        return f'was killed by {task["signal"]}{life}'
    meaning = str(task.get('meaning')).partition(';')[0]
    return f'ended with exit code {task.get("code")} ({meaning}){life}'


def _details(task: Mapping, attempt: Mapping) -> tuple[str, ...]:
    cause = attempt.get('cause')
    if task.get('message') and isinstance(cause, dict) and cause.get('message') == task['message']:
        return ('It says the same as the first.',)
    return (f'It says: {task["message"]}',) if task.get('message') else ()


def _is_cause(task: Mapping, attempt: Mapping) -> bool:
    cause = attempt.get('cause')
    named = isinstance(cause, dict) and cause.get('task') == task.get('name') and cause.get('code') == task.get('code')
    return bool(named) and task.get('how') != 'killed by the supervisor'


def _order(name: str) -> tuple:
    role, _, index = name.partition(':')
    roles = ('chief', 'worker', 'ps', 'evaluator')
    return roles.index(role) if role in roles else 9, int(index) if index.isdigit() else 0
