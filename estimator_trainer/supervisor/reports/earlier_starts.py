"""The starts of a run before the last one: a run may be started again and again in one model_dir. Pure, but for `read`.

While a run lives they are in earlier_starts.json of the model_dir, and in the end in report.json:

    earlier_starts    a list, oldest first: each as report.json describes a start, without its own
                      earlier_starts

The newest MOST starts are kept, and of each of them the last MOST_ATTEMPTS attempts. Of a start whose supervisor was
killed there is what status.json said last: its `exit_code` is null, and the attempt that was under way has ended
because of `lost`.
"""

from collections.abc import Mapping

from estimator_trainer import exit_codes
from estimator_trainer.run_dir import status_file
from estimator_trainer.run_dir.run_folder import RunFolder

NAME = 'earlier_starts.json'
KEY = 'earlier_starts'
MOST, MOST_ATTEMPTS = 100, 20
LOST = 'lost'  # why an attempt has ended
WITH_SUPERVISOR = 'killed with the supervisor'  # how a task has ended
_WHY = {status_file.DONE: 'done', status_file.STOPPED: 'signalled', status_file.FAILED: 'failed'}


def read(model_dir: str) -> list[dict]:
    """The starts that are kept of a model_dir whose supervisor has ended."""
    run = RunFolder(model_dir)
    found = of(run.object(NAME), run.report, run.status, run.training)[-MOST:]
    return [{**each, 'attempts': each['attempts'][-MOST_ATTEMPTS:]} for each in found]


def of(kept: Mapping, report: Mapping, status: Mapping, training: Mapping, lives: bool = False) -> list[dict]:
    """The starts, oldest first, each with its number as `start`. Of any file that is missing there is {}.

    Args:
        kept: earlier_starts.json.
        lives: the last start goes on: its `ended` and `secs` are None, and it has the attempts that have ended.
    """
    told = [*_listed(kept.get(KEY)), *_listed(report.get(KEY)), report, _of_status(status, training, lives)]
    found: dict[float, dict] = {}
    for each in told:
        began = _number(each.get('started'))
        if began is not None:
            found.setdefault(began, {name: value for name, value in each.items() if name != KEY})
    number, numbered = 0, []
    for each in found.values():
        given = each.get('start')
        number = given if type(given) is int and given > number else number + 1
        numbered.append({**each, 'start': number, 'attempts': _listed(each.get('attempts'))})
    return numbered


def _of_status(status: Mapping, training: Mapping, lives: bool) -> dict:
    """The start that status.json tells of."""
    attempts, code = _listed(status.get('attempts')), status.get('exit_code')
    code = code if type(code) is int else None
    told = {
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
        return told
    ended, number = status.get('time'), status.get('attempt')
    if number is not None and all(each.get('attempt') != number for each in attempts):
        told['attempts'] = [*attempts, _under_way(status, training)]
    return {**told, 'ended': ended, 'secs': _between(status.get('started'), ended)}


def _under_way(status: Mapping, training: Mapping) -> dict:
    """The attempt that status.json describes, as one that has ended."""
    tasks = [each for each in _listed(status.get('tasks')) if each.get('state') != 'not started']
    secs = _between(status.get('attempt_started'), status.get('time'))
    generation = status.get('generation')
    seen = training if generation and training.get('generation') == generation else status  # the chief's is newer
    step, saved = seen.get('step'), seen.get('checkpoint_step')
    lost = max(0, step - (saved or 0)) if type(step) is int else None
    return {
        'attempt': status.get('attempt'),
        'generation': generation,
        'workers': sum(str(each.get('name')).startswith(('chief:', 'worker:')) for each in tasks) or None,
        'addresses': {str(each.get('name')): each.get('address') for each in tasks},
        'log_dir': status.get('log_dir'),
        'started': status.get('attempt_started'),
        'secs': secs,
        'why': _WHY.get(str(status.get('state')), LOST),
        'signal': None,
        'cause': None,
        'step': step,
        'max_steps': seen.get('max_steps'),
        'ended_by': None,
        'checkpoint_before': status.get('checkpoint_before'),
        'checkpoint_step': saved,
        'steps_lost': lost,
        'tasks': [_task(str(each.get('name')), secs) for each in tasks],
        'decision': None,
        'delay_secs': None,
    }


def _task(name: str, secs: float | None) -> dict:
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


def _listed(value) -> list[dict]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _between(began, ended) -> float | None:
    began, ended = _number(began), _number(ended)
    return None if began is None or ended is None else round(max(0.0, ended - began), 3)


def _number(value) -> float | None:
    return float(value) if type(value) in (int, float) else None
