"""A gang whose tasks run on other machines. The local supervisor decides who is to blame for a failure, who is
stopped and how, and who is started again alone: only the launcher differs.
"""

import contextlib
import dataclasses
import signal
from collections.abc import Mapping, Sequence
from typing import Protocol

from estimator_trainer.monitoring.training_progress import TrainingFollower
from estimator_trainer.run_dir import training_file
from estimator_trainer.supervisor.policy.causes import TaskEnd, TaskError
from estimator_trainer.supervisor.policy.task_commands import CannotStart, TaskCommand

POLL_SECS = 0.5


class HostLost(OSError):
    """The machine of a task, or what answers for the task there, is gone."""


class TaskHost(Protocol):
    """The machine on which one task runs. Each method may raise HostLost.

    Attributes:
        address: 'host:port' for the task's server.
    """

    address: str

    def start(self, argv: Sequence[str], given: Mapping[str, str], folder: str | None) -> int:
        """Starts it within a bounded time, and returns the number of its process. Raises OSError."""

    def poll(self) -> tuple[int, dict] | None:
        """Returns its code and the content of its error file, if it is known to have ended. Never waits."""

    def send(self, signum: int) -> None:
        """Sends a signal. Never waits."""

    def training(self, model_dir: str) -> dict:
        """Returns the content of `training.json` there, as it was a moment ago. Never waits."""


class RemoteTask:
    """A task on another machine."""

    def __init__(self, command: TaskCommand, host: TaskHost, folder: str | None, life: int = 1):
        self.command, self.life, self._host = command, life, host
        self._last_signal: int | None = None
        self._ended: tuple[int, dict] | None = None
        try:
            self.pid = host.start(command.argv, command.env, folder)
        except OSError as error:
            raise CannotStart(str(error)) from error

    @property
    def name(self) -> str:
        return self.command.name

    def poll(self) -> int | None:
        if self._ended is None:
            try:
                self._ended = self._host.poll()
            except HostLost as error:
                self._ended = -signal.SIGKILL, {'message': str(error)}
        return self._ended[0] if self._ended else None

    def send(self, signum: signal.Signals) -> None:
        self._last_signal = signal.SIGTERM if signum == signal.SIGINT else signum  # a Ctrl-C is of the terminal here
        self._send(self._last_signal)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, signum: int) -> None:
        if self._ended is None:
            with contextlib.suppress(HostLost):  # `poll` finds out
                self._host.send(signum)

    def end(self, code: int, secs: float) -> TaskEnd:
        error = TaskError.from_record(self._ended[1]) if code and self._ended else None
        return TaskEnd(self.name, code, secs, self._last_signal, error, self.life)

    def close(self) -> None:
        self.kill()


@dataclasses.dataclass(frozen=True)
class RemoteLauncher:
    """Starts each task of a gang on the host of its name, in `folder`."""

    hosts: Mapping[str, TaskHost]
    folder: str | None
    look_secs = POLL_SECS  # no pipe wakes us

    def start(self, command: TaskCommand, number: int, life: int, selector: object) -> RemoteTask:
        return RemoteTask(command, self.hosts[command.name], self.folder, life)


class RemoteTrainingFollower(TrainingFollower):
    """Looks at the training through the host of the chief.

    Attributes:
        saved: the step of the last checkpoint, whichever gang has it, as far as was seen; None: there is none. It falls
            where a gang sets aside damaged ones.
    """

    def __init__(
        self, host: TaskHost, model_dir: str, generation: str, stall_secs: float, now: float, saved: int | None
    ):
        super().__init__(model_dir, generation, stall_secs, now)
        self._host, self._folder, self.saved = host, model_dir, saved

    def look_now(self) -> None:
        try:
            training = training_file.TrainingStatus.parse(self._host.training(self._folder))
        except HostLost:
            return
        if training is None:
            return
        if training.checkpoint_step is not None:
            self.saved = training.checkpoint_step
        if training.generation == self._generation:
            self.training = training
