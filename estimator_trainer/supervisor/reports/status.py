"""Writes status.json (`run_dir/status_file.py`): how the run is, while it runs."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping

from estimator_trainer.run_dir import file_names, protocol, status_file, training_file
from estimator_trainer.run_dir.training_file import TrainingStatus
from estimator_trainer.supervisor.policy.causes import EndedBy, TaskEnd

EVERY_SECS = 2
LATEST = 20

_CHANGES = ('state', 'attempt', 'restarts', 'checkpoint_step', 'tasks')


@dataclasses.dataclass(frozen=True)
class TaskView:
    """What there is to see of one task."""

    name: str
    pid: int | None
    state: str  # not started, running, restarting, done, stopped, failed


@dataclasses.dataclass(frozen=True)
class View:
    """What there is to see of a gang."""

    stopping: bool = False
    draining: bool = False  # training is done
    tasks: tuple[TaskView, ...] = ()


def task_views(
    names: Iterable[str], running: Mapping[str, int], waiting: Iterable[str], ended: Iterable[TaskEnd]
) -> tuple[TaskView, ...]:
    """What there is to see of the tasks `names`.

    Args:
      names: in the order to show them in.
      running: pids, by name.
      waiting: those to be restarted alone.
      ended: in this order; of each task the last one counts.
    """
    waiting, last = set(waiting), {task.name: task for task in ended}

    def state(name: str) -> str:
        if name in running:
            return 'running'
        if name in waiting:
            return 'restarting'
        if name not in last:
            return 'not started'
        if last[name].code == 0:
            return 'done'
        return 'failed' if last[name].how in (EndedBy.BY_ITSELF, EndedBy.NEVER_STARTED) else 'stopped'

    return tuple(TaskView(name, running.get(name), state(name)) for name in names)


def state(view: View, training: TrainingStatus | None) -> str:
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


def of_training(training: TrainingStatus | None, checkpoint_step: int | None) -> dict:
    """The part that comes from training.json; `checkpoint_step` is what is known without it."""
    if training is None:
        training = TrainingStatus('')
    known = training.checkpoint_step
    return {
        'step': training.step,
        'max_steps': training.max_steps,
        'checkpoint_step': checkpoint_step if known is None else known,
        'examples_per_sec': training.examples_per_sec,
    }


def of_tasks(view: View, addresses: Mapping[str, str]) -> list[dict]:
    return [{**dataclasses.asdict(task), 'address': addresses.get(task.name)} for task in view.tasks]


class JsonFile:
    """A file in the model_dir that may be missed, but must not stop the run.

    Args:
      path: None: nothing is written.
      say: is told, once, that it cannot be written.
    """

    def __init__(self, path: str | None, say: Callable[[str], None]):
        self._path, self._say = path, say

    def write(self, value: Mapping) -> None:
        if self._path is None:
            return
        try:
            protocol.write_json(self._path, value)
        except OSError as error:
            self._say(f'{self._path} cannot be written: {error.strerror}; the run goes on')
            self._say = lambda text: None


class StatusFile:
    """Writes status.json at changes, and about every EVERY_SECS."""

    def __init__(self, folder: str | None, say: Callable[[str], None]):
        self._file = JsonFile(folder and os.path.join(folder, file_names.STATUS), say)
        self._written: dict = {}

    def write(self, status: dict) -> None:
        """Writes `status`, whose 'time' says when now is, if it is time to."""
        old = self._written
        same = old and all(old[key] == status[key] for key in _CHANGES)
        if not same or status['time'] - old['time'] >= EVERY_SECS or status['time'] < old['time']:
            self._file.write(status)
            self._written = status
