"""status.json and report.json in the model_dir: how a run is while it runs, and what happened in it.

`run_dir/status_file.py` describes status.json. A run may be started several times; in report.json everything but
`earlier_starts` is about the last start:

    start                     its number, from 1
    exit_code, meaning        of the run
    started, ended, secs      seconds since the epoch; duration
    restarts                  of the gang
    task_restarts             of single tasks, while the others went on
    attempts                  a list, in order:
      attempt, generation, workers, addresses, log_dir, started, secs
      why                     done, failed, stalled, signalled, not drained
      signal                  the name of the one that we were told to stop with
      cause                   task, code, meaning, text, reported_by, message, traceback,
                              out_of_memory; null without
      step, max_steps, checkpoint_before, checkpoint_step, steps_lost
      ended_by                as `why` of run_dir/training_file.py; null: training has not ended
      tasks                   each end of each task, in the order they were seen:
                              name, life, code, signal, meaning, how, message; began_secs, secs:
                              when this life began and ended, since the gang was started.
                              how: who ended it; 'by itself': not the supervisor
      decision, delay_secs    what followed a failure; null without
    earlier_starts            as in run_dir/run_starts.py

What is not known is null.
"""

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence

from estimator_trainer import exit_codes
from estimator_trainer.run_dir import file_names, protocol, status_file, training_file
from estimator_trainer.run_dir.training_file import TrainingStatus
from estimator_trainer.supervisor.policy.causes import EndedBy, TaskEnd
from estimator_trainer.supervisor.policy.restarts import Attempt, Decision
from estimator_trainer.supervisor.reports import wording
from estimator_trainer.this_process import hung_files

LATEST = 20  # attempts in status.json
_ERROR = 'error: '  # in the last line of a command
_EVERY_SECS, _LAST_SECS = 2, 60
_CHANGES = ('state', 'attempt', 'restarts', 'checkpoint_step', 'tasks')


def document(
    code: int,
    started: float,
    ended: float,
    pairs: Sequence[tuple[Attempt, Decision | None]],
    start: int = 1,
    earlier: Sequence[Mapping] = (),
) -> dict:
    """The content of report.json. `start`: the number of this start; `earlier`: the starts before it."""
    return {
        'start': start,
        'exit_code': code,
        'meaning': exit_codes.describe(code),
        'started': started,
        'ended': ended,
        'secs': round(ended - started, 3),
        'restarts': max(0, len(pairs) - 1),
        'task_restarts': sum(task.life > 1 for attempt, _ in pairs for task in attempt.outcome.ended),
        'attempts': attempts(pairs),
        'earlier_starts': [*earlier],
    }


def attempts(pairs: Sequence[tuple[Attempt, Decision | None]]) -> list[dict]:
    """The list `attempts` of both files: those that have ended."""
    return [_attempt(attempt, decision) for attempt, decision in pairs]


def _attempt(attempt: Attempt, decision: Decision | None) -> dict:
    outcome, training = attempt.outcome, attempt.training
    return {
        'attempt': attempt.number,
        'generation': attempt.generation,
        'workers': attempt.workers,
        'addresses': dict(attempt.addresses),
        'log_dir': str(attempt.folder),
        'started': attempt.started,
        'secs': round(outcome.secs, 3),
        'why': outcome.end.kind.value,
        'signal': outcome.signum.name if outcome.signum else None,
        'cause': _cause(attempt),
        'step': attempt.step,
        'max_steps': training.max_steps if training else None,
        'ended_by': training.why if training else None,
        'checkpoint_before': attempt.checkpoint_before,
        'checkpoint_step': attempt.checkpoint,
        'steps_lost': attempt.steps_lost,
        'tasks': [_task(task) for task in outcome.ended],
        'decision': wording.reason(decision) if decision else None,
        'delay_secs': round(decision.delay, 3) if decision and decision.restart else None,
    }


def _cause(attempt: Attempt) -> dict | None:
    cause = attempt.outcome.end.cause
    if cause is None:
        return None
    error = cause.evidence.error if cause.evidence else None
    return {
        'task': cause.name or None,
        'code': cause.code,
        'meaning': exit_codes.describe(cause.code),
        'text': wording.cause(cause),
        'reported_by': cause.reporter.name if cause.reporter else None,
        'message': error.message if error else None,
        'traceback': list(error.traceback) if error else [],
        'out_of_memory': attempt.out_of_memory,
    }


def _task(task: TaskEnd) -> dict:
    return {
        'name': task.name,
        'life': task.life,
        'code': task.exit_code,
        'signal': wording.signal_name(-task.code) if task.code < 0 else None,
        'meaning': exit_codes.describe(task.exit_code),
        'began_secs': round(task.began, 3),
        'secs': round(task.secs, 3),
        'how': task.how.value,
        'message': task.error.message if task.error else None,
    }


def failure_reason(report: Mapping, code: int, last_lines: Sequence[str]) -> str:
    """Why a command failed that ended with `code`, in one line.

    Args:
      report: its report.json, that of an earlier start, or {}.
      last_lines: the last lines that it wrote.
    """
    attempts = report.get('attempts') if report.get('exit_code') == code else None
    cause = attempts[-1].get('cause') if isinstance(attempts, list) and attempts else None
    reason = (cause or {}).get('message') or (cause or {}).get('text')
    if not reason:
        errors = [line.partition(_ERROR)[2] for line in last_lines if _ERROR in line]
        reason = (errors or [line.strip() for line in last_lines if line.strip()] or [''])[-1]
    return reason or exit_codes.describe(code)


@dataclasses.dataclass(frozen=True)
class GangView:
    """How a gang is at one moment."""

    stopping: bool = False
    draining: bool = False  # training is done
    tasks: tuple[dict, ...] = ()  # name, pid and state of each, as `task_states` gives them


def task_states(
    names: Iterable[str], running: Mapping[str, int], restarting: Iterable[str], ended: Iterable[TaskEnd]
) -> tuple[dict, ...]:
    """The name, the pid and the state of the tasks `names`, in this order.

    A task is not started, running, restarting, done, stopped or failed.

    Args:
      running: their process numbers, by name.
      restarting: the tasks that will be restarted alone.
      ended: in the order of their ends; the last end of each task counts.
    """
    restarting, last = set(restarting), {task.name: task for task in ended}

    def state(name: str) -> str:
        if name in running:
            return 'running'
        if name in restarting:
            return 'restarting'
        if name not in last:
            return 'not started'
        if last[name].code == 0:
            return 'done'
        return 'failed' if last[name].how in (EndedBy.BY_ITSELF, EndedBy.NEVER_STARTED) else 'stopped'

    return tuple({'name': name, 'pid': running.get(name), 'state': state(name)} for name in names)


def state(view: GangView, training: TrainingStatus | None) -> str:
    """The state of a gang that runs."""
    if view.stopping:
        return status_file.STOPPING
    if view.draining:
        return status_file.EVALUATING
    return {
        training_file.TRAINING: status_file.TRAINING,
        training_file.EVALUATING: status_file.EVALUATING,
        training_file.ENDED: status_file.EVALUATING,
        training_file.STOPPED: status_file.STOPPING,
    }.get(training.state if training else '', status_file.STARTING)


def training_fields(training: TrainingStatus | None, checkpoint_step: int | None) -> dict:
    """The fields of status.json that come from training.json. `checkpoint_step`: as far as is known without it."""
    if training is None:
        training = TrainingStatus('')
    known = training.checkpoint_step
    return {
        'step': training.step,
        'max_steps': training.max_steps,
        'checkpoint_step': checkpoint_step if known is None else known,
        'examples_per_sec': training.examples_per_sec,
    }


def task_fields(view: GangView, addresses: Mapping[str, str]) -> list[dict]:
    """The list `tasks` of status.json."""
    return [{**task, 'address': addresses.get(task['name'])} for task in view.tasks]


class JsonFile:
    """A file in the model_dir that may be missed, but must not stop the run.

    Args:
      path: None if nothing is to be written.
      say: called once with the reason if the file cannot be written.
      durable: it is on the disk before it has its name.
    """

    def __init__(self, path: str | None, say: Callable[[str], None], durable: bool = False):
        self._path, self._say, self._durable = path, say, durable

    def write(self, value: Mapping) -> bool:
        """Whether it was written."""
        if self._path is None:
            return False
        try:
            protocol.write_json(self._path, value, self._durable)
        except OSError as error:
            self._say(f'{self._path} cannot be written: {error.strerror}; the run goes on')
            self._say = lambda text: None
            return False
        return True


class StatusFile:
    """Writes status.json at changes, and about every two seconds.

    Attributes:
      files: for what is read and written in the folder while tasks run. A signal must not wait for a file system that
        hangs.
    """

    def __init__(self, folder: str | None, say: Callable[[str], None]):
        self._file = JsonFile(folder and os.path.join(folder, file_names.STATUS), say)
        self.files = hung_files.BoundedFiles(say, f'the file system of {folder}')
        self._written: dict = {}

    def write(self, status: dict) -> None:
        """Writes `status` if it is due. The current time is in status['time']."""
        old = self._written
        same = old and all(old[key] == status[key] for key in _CHANGES)
        if not same or status['time'] - old['time'] >= _EVERY_SECS or status['time'] < old['time']:
            if status.get('exit_code') is None:
                self.files.call(lambda: self._file.write(status), False)
            else:
                self.last(lambda: self._file.write(status))
            self._written = status

    def last(self, write: Callable[[], bool]) -> None:
        """Writes the last word of a run, which an older one must not replace. Waits for a file system that hangs."""
        if self.files.wait(_LAST_SECS):
            self.files.call(write, False)
