"""What the attempts of a gang were, from report.json: lanes of tasks, and events in words. Pure."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from estimator_trainer import error_lines, exit_codes
from estimator_trainer.run_dir import run_starts, run_verdict
from estimator_trainer.run_dir.protocol import objects, real
from estimator_trainer.tools.reporting import day, duration, whole

RUNS, TRAINS = 'runs', 'trains'  # bars
START, RESTART, KILLED, FAILED, ENDED, STOPPED = 'start', 'restart', 'killed', 'failed', 'ended', 'stopped'  # marks
CHECKPOINT, EVALUATION, BEST = 'checkpoint', 'evaluation', 'best'
MOST_ROWS = 50  # of the table, the newest
_ROLES = ('chief', 'worker', 'ps', 'evaluator')
_BY_SUPERVISOR = ('stopped by the supervisor', 'killed by the supervisor')
_STALLED, _NOT_DRAINED = 'no step was finished for too long', 'training was done, but not all tasks ended in time'


class Bar(NamedTuple):
    began: float  # seconds since the epoch
    ended: float
    kind: str


class Mark(NamedTuple):
    at: float
    kind: str


class Event(NamedTuple):
    """One line of the list of events. `bad`: something was lost or failed. `traceback`: its lines."""

    at: float
    text: str
    bad: bool = False
    details: tuple[str, ...] = ()
    traceback: tuple[str, ...] = ()


@dataclasses.dataclass
class Lane:
    name: str
    bars: list[Bar] = dataclasses.field(default_factory=list)
    marks: list[Mark] = dataclasses.field(default_factory=list)


class Story:
    """Lanes and events, while they are gathered."""

    def __init__(self) -> None:
        self.lanes: dict[str, Lane] = {}
        self.events: list[Event] = []

    def lane(self, name: Any) -> Lane:
        return self.lanes.setdefault(str(name), Lane(str(name)))

    def tell(self, at: float, text: str, bad: bool = False, *more: tuple[str, ...]) -> None:
        self.events.append(Event(at, text, bad, *more))

    def tell_begin(self, attempt: Mapping, began: float, title: str) -> None:
        """That an attempt began. `title`: 'Attempt 2'."""
        step, workers = attempt.get('checkpoint_before'), attempt.get('workers')
        where = f'the checkpoint at step {step:,}' if type(step) is int else 'the beginning'
        with_whom = f' with {workers} {"worker" if workers == 1 else "workers"}' if workers else ''
        self.tell(began, f'{title} began{with_whom}, from {where}.')

    def add(self, attempt: Mapping, title: str, first: bool) -> None:
        """Adds an attempt that has ended. `first`: nothing of the run was before it."""
        began = real(attempt.get('started'))
        if began is None:
            return
        self.tell_begin(attempt, began, title)
        for name in sorted(attempt.get('addresses') or (), key=_order):
            self.lane(name)
        ends: dict[str, float] = {}
        for task in objects(attempt.get('tasks')):
            lane, life, at = self.lane(task.get('name')), task.get('life', 1), began + (real(task.get('secs')) or 0)
            since = real(task.get('began_secs'))
            start = began + since if since is not None else ends.get(lane.name, began)
            kind = _kind(task)
            lane.bars.append(Bar(start, at, RUNS))
            lane.marks += [Mark(start, START if first and life == 1 else RESTART), Mark(at, kind)]
            if life > 1:
                self.tell(start, f'{lane.name} was restarted alone (life {life}).')
            ends[lane.name] = at
            if task.get('code') and task.get('how') == 'by itself' and not _is_cause(task, attempt):
                self.tell(at, f'{lane.name} {_how(task)}.', kind != STOPPED, _details(task, attempt))
        if attempt.get('why') not in ('done', None):
            self._tell_end(attempt, began, title)

    def add_alone(self, start: Mapping, name: str, first: bool, seen: float) -> None:
        """Adds a start of a trainer without a supervisor.

        Args:
            name: 'Start 2'.
            first: nothing of the run was before it.
            seen: when a start that goes on was seen last, seconds since the epoch.
        """
        began, at, lane = start['started'], real(start.get('ended')), self.lane(start[run_starts.ALONE])
        attempt = next(iter(start['attempts']), None)
        self.tell_begin(attempt or start.get(run_starts.UNDER_WAY) or {}, began, name)
        lane.marks.append(Mark(began, START if first else RESTART))
        lane.bars.append(Bar(began, seen if at is None else at, RUNS))
        if attempt is None or at is None:
            return
        task = next(iter(objects(attempt.get('tasks'))), {})
        lane.marks.append(Mark(at, _kind(task)))
        self.tell(at, *_end_alone(start, attempt, str(task.get('message') or '').rstrip('.'), name))

    def _tell_end(self, attempt: Mapping, began: float, title: str) -> None:
        at, cause, lost = began + (real(attempt.get('secs')) or 0), attempt.get('cause'), attempt.get('steps_lost')
        if isinstance(cause, dict):
            task = next((task for task in objects(attempt.get('tasks')) if _is_cause(task, attempt)), None)
            said = [f'It says: {cause["message"]}'] if cause.get('message') else []
            if cause.get('out_of_memory'):
                said.append('The kernel has killed a process for want of memory.')
            first = f'{cause.get("task")} {_how(task)}' if task else str(cause.get('text'))
            text = f'{first}. This was the first failure of the attempt.'
            self.tell(began + (real(task.get('secs')) or 0) if task else at, text, True, tuple(said), traceback(cause))
        why = {
            'stalled': f'{title} was ended: {_STALLED}',
            run_starts.LOST: f'{title} ended with its supervisor, which was killed or whose machine went down',
            'signalled': f'The run was told to stop ({attempt.get("signal")})',
            'not drained': f'{_NOT_DRAINED[0].upper()}{_NOT_DRAINED[1:]}',
        }.get(str(attempt['why']), f'{title} ended')
        delay = real(attempt.get('delay_secs'))
        gives_up = delay is None and bool(attempt.get('decision'))
        then = f'. No restart: {attempt["decision"]}' if gives_up else ''
        if delay is not None:
            then = f'. The tasks were started again {delay:.1f} s later'
        self.tell(at, f'{why}: {_loss(attempt)}{then}.', bool(lost) or gives_up or attempt['why'] == run_starts.LOST)


def _end_alone(start: Mapping, attempt: Mapping, said: str, name: str) -> tuple:
    """How a start without a supervisor has ended: text, whether it is bad, details and traceback, as those of Event."""
    code, cause, step = start.get('exit_code'), attempt.get('cause'), attempt.get('step')
    after = f'{name} ended after {duration(real(start.get("secs")) or 0)}'
    loss = f'. {_loss(attempt)[0].upper()}{_loss(attempt)[1:]}' if attempt.get('steps_lost') or code is None else ''
    if code is None:
        return f'{name} did not end by itself: it was killed, or its machine failed{loss}.', True
    if isinstance(cause, dict):
        text = f'{after} with exit code {code} ({str(start.get("meaning")).partition(";")[0]}){loss}.'
        return text, True, (f'It says: {said}.',) if said else (), traceback(cause)
    if code != exit_codes.OK:
        return f'{after}: {said}{loss}.', False
    if step == attempt.get('checkpoint_before'):
        return f'{after}: at step {whole(step)} nothing was left to train.', False
    return f'{after} at step {whole(step)}: {run_verdict.why(attempt.get("ended_by"))}{loss}.', False


def _loss(attempt: Mapping) -> str:
    """How many steps an attempt has lost, and which checkpoint is there."""
    step, lost = attempt.get('checkpoint_step'), attempt.get('steps_lost')
    what = 'no step was seen to be done' if attempt.get('step') is None else 'how many steps are lost is not known'
    if type(lost) is int:
        what = f'{lost:,} {"step is" if lost == 1 else "steps are"} lost' if lost else 'no step is lost'
    return (
        f'{what}; the last checkpoint is of step {step:,}' if type(step) is int else f'{what}; there is no checkpoint'
    )


def table(starts: Sequence[Mapping]) -> list[tuple[str, ...]]:
    """Start, attempt, workers, when it began, how long it took, from which step to which, steps lost, how it ended and
    the folder of its logs, of each attempt that has ended; [] where one is all there is.

    `starts`: as RunFolder.starts.
    """
    rows = []
    for number, each in ((start['start'], each) for start in starts for each in start['attempts']):
        secs, folder, first, step = (each.get(name) for name in ('secs', 'log_dir', 'checkpoint_before', 'step'))
        rows.append(
            (
                str(number),
                str(each.get('attempt', '–')),
                whole(each.get('workers')),
                day(real(each.get('started'))),
                duration(secs) if real(secs) is not None else '–',
                whole(0 if first is None and step is not None else first),  # of a program neither is known
                whole(step),
                whole(each.get('steps_lost')),
                _ending(each),
                os.path.basename(folder) if isinstance(folder, str) else '–',
            )
        )
    return rows if len(rows) > 1 else []


def traceback(record: Mapping) -> tuple[str, ...]:
    """The lines of the traceback in what a task has recorded of its end."""
    lines = record.get('traceback')
    return tuple(map(str, lines)) if isinstance(lines, list) else ()


def _ending(attempt: Mapping) -> str:
    why, cause = str(attempt.get('why')), attempt.get('cause')
    known = {
        'signalled': f'told to stop ({attempt.get("signal")})',
        'stalled': _STALLED,
        run_starts.LOST: 'its supervisor was killed',
        run_starts.VANISHED: 'killed, or its machine failed',
    }
    if why in known:
        return known[why]
    if isinstance(cause, dict):
        said = cause.get('message')
        named = f'{cause.get("task")}, exit code {cause.get("code")}: {error_lines.short(str(said))}'
        return named if said else str(cause.get('text'))
    return _NOT_DRAINED if why == 'not drained' else why


def _kind(task: Mapping) -> str:
    if task.get('code') == 0:
        return ENDED
    code, how = task.get('code'), task.get('how')
    if code in exit_codes.SYMPTOMS or how in _BY_SUPERVISOR or (type(code) is int and exit_codes.was_stopped(code)):
        return STOPPED
    return KILLED if task.get('signal') or how in (run_starts.WITH_SUPERVISOR, run_starts.VANISHED) else FAILED


def _how(task: Mapping) -> str:
    life = f' (life {task["life"]})' if task.get('life', 1) != 1 else ''
    if task.get('how') == 'could not be started':
        return f'could not be started{life}'
    if task.get('signal'):
        return f'was killed by {task["signal"]}{life}'
    meaning = str(task.get('meaning')).partition(';')[0]
    return f'ended with exit code {task.get("code")} ({meaning}){life}'


def _details(task: Mapping, attempt: Mapping) -> tuple[str, ...]:
    said, cause = task.get('message'), attempt.get('cause')
    if said and isinstance(cause, dict) and cause.get('message') == said:
        return ('It says the same as the first.',)
    return (f'It says: {said}',) if said else ()


def _is_cause(task: Mapping, attempt: Mapping) -> bool:
    cause = attempt.get('cause')
    named = isinstance(cause, dict) and cause.get('task') == task.get('name') and cause.get('code') == task.get('code')
    return bool(named) and task.get('how') != 'killed by the supervisor'


def _order(name: str) -> tuple:
    role, _, index = name.partition(':')
    return _ROLES.index(role) if role in _ROLES else 9, int(index) if index.isdigit() else 0
