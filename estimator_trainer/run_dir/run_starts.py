"""The starts of a run: a supervisor may be started again and again in one model_dir. Pure.

While a run lives, the starts before the last one are in earlier_starts.json of the model_dir, and in the end in
report.json:

    earlier_starts    a list, oldest first: each as report.json describes a start, without its own
                      earlier_starts

The newest MOST starts are kept, and of each of them the last MOST_ATTEMPTS attempts. If the supervisor of a start was
killed, the start is what status.json said last: its `exit_code` is null, and the attempt that was under way has ended
because of `lost`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from estimator_trainer import exit_codes
from estimator_trainer.run_dir import metrics_log, status_file
from estimator_trainer.run_dir.protocol import objects, real, whole

KEY = 'earlier_starts'
MOST, MOST_ATTEMPTS = 100, 20
LOST = 'lost'  # why an attempt has ended
WITH_SUPERVISOR = 'killed with the supervisor'  # how a task has ended
_WHY = {status_file.DONE: 'done', status_file.STOPPED: 'signalled', status_file.FAILED: 'failed'}
_CHIEFS = ('chief:0', 'worker:0')


def starts(
    kept: Mapping[str, Any],
    report: Mapping[str, Any],
    status: Mapping[str, Any],
    training: Mapping[str, Any],
    lives: bool = False,
    lines: Sequence[Mapping[str, Any]] = (),
) -> list[dict[str, Any]]:
    """The starts, oldest first, each with its number as `start`. Each argument is {} where its file is missing.

    Args:
        kept: earlier_starts.json.
        lines: the last ones of metrics.jsonl.
        lives: the last start goes on: its `ended` and `secs` are None, and it has the attempts that have ended.
    """
    entries = [*objects(kept.get(KEY)), *objects(report.get(KEY)), report, _by_status(status, training, lives, lines)]
    by_time: dict[float, dict[str, Any]] = {}
    for entry in entries:
        began = real(entry.get('started'))
        if began is not None:
            by_time.setdefault(began, {name: value for name, value in entry.items() if name != KEY})
    number, numbered = 0, []
    for entry in by_time.values():
        given = entry.get('start')
        number = given if type(given) is int and given > number else number + 1
        numbered.append({**entry, 'start': number, 'attempts': objects(entry.get('attempts'))})
    return numbered


def newest(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As much of the starts as a model_dir keeps."""
    return [{**entry, 'attempts': entry['attempts'][-MOST_ATTEMPTS:]} for entry in entries[-MOST:]]


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
