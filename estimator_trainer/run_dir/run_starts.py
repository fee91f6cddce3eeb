"""The starts of a run: a supervisor, or a trainer alone, may be started again and again in one model_dir. Pure.

While a supervisor lives, the starts before the last one are in earlier_starts.json of the model_dir, and in the end in
report.json. Those of a trainer alone are in earlier_starts.json from their beginning (`own_start.py`):

    earlier_starts    a list, oldest first: each as report.json describes a start, without its own
                      earlier_starts. One without a supervisor also has
      alone           the name of its task, such as 'trainer'
      under_way       until its end is recorded, and then null: pid, checkpoint_before
      attempts        [] until its end is recorded; then one, which has the one task
      restarts, task_restarts
                      null

The newest MOST starts are kept, and of each of them the last MOST_ATTEMPTS attempts. If the supervisor of a start was
killed, the start is what status.json said last: its `exit_code` is null, and the attempt that was under way has ended
because of `lost`. A trainer alone that was killed has ended because of `vanished`, when its files were written last.
"""

import signal
from collections.abc import Mapping, Sequence
from typing import Any

from estimator_trainer import exit_codes
from estimator_trainer.run_dir import metrics_log, status_file
from estimator_trainer.run_dir.protocol import objects, real, whole

KEY = 'earlier_starts'
MOST, MOST_ATTEMPTS = 100, 20
LOST = 'lost'  # why an attempt has ended
VANISHED = 'vanished'  # the same of a trainer alone, and how its task has ended
WITH_SUPERVISOR = 'killed with the supervisor'  # how a task has ended
ALONE, UNDER_WAY = 'alone', 'under_way'
_WHY = {status_file.DONE: 'done', status_file.STOPPED: 'signalled', status_file.FAILED: 'failed'}
_CHIEFS = ('chief:0', 'worker:0')


def starts(
    kept: Mapping[str, Any],
    report: Mapping[str, Any],
    status: Mapping[str, Any],
    training: Mapping[str, Any],
    lives: bool = False,
    alone_lives: bool = False,
    lines: Sequence[Mapping[str, Any]] = (),
    saved: int | None = None,
) -> list[dict[str, Any]]:
    """The starts, oldest first, each with its number as `start`. Each argument is {} where its file is missing.

    Args:
        kept: earlier_starts.json.
        lives: the last start goes on: its `ended` and `secs` are None, and it has the attempts that have ended.
        alone_lives: the same, where the last start is a trainer alone.
        lines: the last ones of metrics.jsonl.
        saved: the step of the checkpoint that the run goes on from; None: not known.
    """
    entries = [*objects(kept.get(KEY)), *objects(report.get(KEY)), report, _by_status(status, training, lives, lines)]
    by_time: dict[float, dict[str, Any]] = {}
    for entry in entries:
        began = real(entry.get('started'))
        if began is not None:
            by_time.setdefault(began, {name: value for name, value in entry.items() if name != KEY})
    number, numbered, newest_first = 0, [], sorted(by_time, reverse=True)
    for began in reversed(newest_first):
        entry = by_time[began]
        if (
            isinstance(entry.get(UNDER_WAY), dict)
            and isinstance(entry.get(ALONE), str)
            and not (alone_lives and began == newest_first[0])
        ):
            entry = _vanished(entry, training, lines, saved)
        given = entry.get('start')
        number = given if type(given) is int and given > number else number + 1
        numbered.append({**entry, 'start': number, 'attempts': objects(entry.get('attempts'))})
    return numbered


def newest(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As much of the starts as a model_dir keeps."""
    return [{**entry, 'attempts': entry['attempts'][-MOST_ATTEMPTS:]} for entry in entries[-MOST:]]


def begun(task: str, number: int, began: float, pid: int, checkpoint: int | None) -> dict[str, Any]:
    """The start of a trainer alone that goes on from the checkpoint of a step; None: from the beginning."""
    unknown = dict.fromkeys(('exit_code', 'meaning', 'ended', 'secs', 'restarts', 'task_restarts'))
    under_way = {'pid': pid, 'checkpoint_before': checkpoint}
    return {**unknown, 'start': number, ALONE: task, 'started': began, 'attempts': [], UNDER_WAY: under_way}


def ended(
    entry: Mapping[str, Any],
    at: float,
    code: int | None,
    said: Mapping[str, Any],
    step: int | None,
    checkpoint: int | None,
    training: Mapping[str, Any],
) -> dict[str, Any]:
    """The start `entry`, as `begun` gives it, once it has ended.

    Args:
        at: when, seconds since the epoch.
        code: its exit code; None: it did not end by itself.
        said: message and traceback, of a failure or a stop.
        step: the last one that was finished; None: not known.
        checkpoint: step of the last checkpoint.
        training: training.json of the start; {} without.
    """
    before, task, secs = entry[UNDER_WAY].get('checkpoint_before'), entry[ALONE], _between(entry['started'], at)
    step, checkpoint = (
        (before if step is None else max(step, before or 0)),
        before if checkpoint is None else checkpoint,
    )
    meaning = None if code is None else exit_codes.describe(code)
    stopped = code is not None and exit_codes.was_stopped(code)
    why = VANISHED if code is None else 'signalled' if stopped else 'failed' if code else 'done'
    of_exit = {'code': code, 'meaning': meaning, 'message': said.get('message') or None}
    cause = {**of_exit, 'task': task, 'text': meaning, 'traceback': said.get('traceback') or []}
    its_end = {**_task(task, secs), **of_exit, 'how': VANISHED if code is None else 'by itself'}
    attempt = {
        **dict.fromkeys(('workers', 'log_dir', 'decision', 'delay_secs')),
        'attempt': 1,
        'generation': '',
        'addresses': {task: None},
        'started': entry['started'],
        'secs': secs,
        'why': why,
        'signal': signal.Signals(code - 128).name if code is not None and stopped else None,
        'cause': cause if why == 'failed' else None,
        'step': step,
        'max_steps': training.get('max_steps'),
        'ended_by': training.get('why'),
        'checkpoint_before': before,
        'checkpoint_step': checkpoint,
        'steps_lost': max(0, (step or 0) - (checkpoint or 0)),
        'tasks': [its_end],
    }
    known = {'exit_code': code, 'meaning': meaning, 'ended': at, 'secs': secs}
    return {**entry, **known, 'attempts': [attempt], UNDER_WAY: None}


def _vanished(
    entry: Mapping[str, Any], training: Mapping[str, Any], lines: Sequence[Mapping[str, Any]], saved: int | None
) -> dict[str, Any]:
    """A start that has recorded no end: it ended when its files were written last, as far as anybody knows."""
    began, written = entry['started'], real(training.get('time')) or 0.0
    is_own = training.get('pid') == entry[UNDER_WAY].get('pid') and written >= began
    own = training if is_own else {}
    at = max([began, *([written] if is_own else []), *(real(line.get('time')) or 0.0 for line in lines)])
    steps = [step for step in (whole(own.get('step')), metrics_log.last_step(lines, began)) if step is not None]
    checkpoint = whole(own.get('checkpoint_step')) if saved is None else saved
    return ended(entry, at, None, {}, max(steps, default=None), checkpoint, own)


def task_restarts(start: Mapping[str, Any]) -> int:
    """How often single tasks were restarted while the others went on. Reports of old have no number of it."""
    known = whole(start.get('task_restarts'))
    if known is not None:
        return known
    tasks = (task for attempt in objects(start.get('attempts')) for task in objects(attempt.get('tasks')))
    return sum((whole(task.get('life')) or 1) > 1 for task in tasks)


def chief_lives(attempt: Mapping[str, Any]) -> list[tuple[float, float]]:
    """When the chief of an attempt began and ended, in each of its lives, in seconds since the epoch. The last one ends
    with the attempt. [] where the time of the attempt is not known."""
    began, secs = real(attempt.get('started')), real(attempt.get('secs'))
    if began is None or secs is None:
        return []
    tasks = objects(attempt.get('tasks'))
    chief = next((name for name in _CHIEFS if any(task.get('name') == name for task in tasks)), None)
    lives = sorted(
        (real(task.get('began_secs')) or 0.0, real(task.get('secs')) or 0.0)
        for task in tasks
        if task.get('name') == chief
    )
    if len(lives) < 2:
        return [(began, began + secs)]
    ends = [*(ended for _, ended in lives[:-1]), secs]
    return [
        (began + (since if number else 0.0), began + end) for number, ((since, _), end) in enumerate(zip(lives, ends))
    ]


def _by_status(
    status: Mapping[str, Any], training: Mapping[str, Any], lives: bool, lines: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The start that status.json describes."""
    attempts, code = objects(status.get('attempts')), status.get('exit_code')
    code = code if type(code) is int else None
    entry: dict[str, Any] = {
        'start': status.get('start'),
        'exit_code': code,
        'meaning': None if code is None else exit_codes.describe(code),
        'started': status.get('started'),
        'ended': None,
        'secs': None,
        'restarts': status.get('restarts'),
        'task_restarts': status.get('task_restarts'),
        'attempts': attempts,
    }
    if lives:
        return entry
    ended, number = status.get('time'), status.get('attempt')
    if number is not None and all(attempt.get('attempt') != number for attempt in attempts):
        entry['attempts'] = [*attempts, _under_way(status, training, lines)]
    return {**entry, 'ended': ended, 'secs': _between(status.get('started'), ended)}


def _under_way(
    status: Mapping[str, Any], training: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The attempt that status.json describes, as one that has ended."""
    tasks = [task for task in objects(status.get('tasks')) if task.get('state') != 'not started']
    secs = _between(status.get('attempt_started'), status.get('time'))
    generation = status.get('generation')
    last = training if generation and training.get('generation') == generation else status  # the chief's is newer
    step, saved = whole(last.get('step')), last.get('checkpoint_step')
    began = real(status.get('attempt_started'))
    reported = None if began is None else metrics_log.last_step(lines, began)
    if reported is not None:  # the chief may have reported a step after it wrote its file last
        step = max(step or 0, reported)
    return {
        'attempt': status.get('attempt'),
        'generation': generation,
        'workers': sum(str(task.get('name')).startswith(('chief:', 'worker:')) for task in tasks) or None,
        'addresses': {str(task.get('name')): task.get('address') for task in tasks},
        'log_dir': status.get('log_dir'),
        'started': status.get('attempt_started'),
        'secs': secs,
        'why': _WHY.get(str(status.get('state')), LOST),
        'signal': None,
        'cause': None,
        'step': step,
        'max_steps': last.get('max_steps'),
        'ended_by': None,
        'checkpoint_before': status.get('checkpoint_before'),
        'checkpoint_step': saved,
        'steps_lost': None if step is None else max(0, step - (saved or 0)),
        'tasks': [_task(str(task.get('name')), secs) for task in tasks],
        'decision': None,
        'delay_secs': None,
    }


def _task(name: str, secs: float | None) -> dict[str, Any]:
    """What is known of a task whose end nobody has seen."""
    return {
        'name': name,
        'life': 1,
        'code': None,
        'signal': None,
        'meaning': None,
        'began_secs': 0.0,
        'secs': secs,
        'how': WITH_SUPERVISOR,
        'message': None,
    }


def _between(began: Any, ended: Any) -> float | None:
    began, ended = real(began), real(ended)
    return None if began is None or ended is None else round(max(0.0, ended - began), 3)
