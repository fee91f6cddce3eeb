"""A gang whose tasks run on other machines, under the local supervisor: who is to blame for a failure, who is
stopped and how, and who is started again alone, is decided by the same code. Only where a task runs differs.
"""

import contextlib
import signal
import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from estimator_trainer.supervisor import training
from estimator_trainer.supervisor.plan import Command
from estimator_trainer.supervisor.policy import Ended, TaskError
from estimator_trainer.supervisor.supervisor import Supervisor
from estimator_trainer.supervisor.task import CannotStart, never_started

POLL_SECS = 0.5


class HostLost(OSError):
    """The machine of a task, or what answers for the task there, is gone."""


class Host(Protocol):
    """Where one task runs, seen from here. Each method may raise HostLost.

    Attributes:
        address: 'host:port' for the task's server.
    """

    address: str

    def start(self, argv: Sequence[str], given: Mapping[str, str], folder: str | None) -> int:
        """Starts it; the number of its process. Raises OSError. Bounded."""

    def poll(self) -> tuple[int, dict] | None:
        """How it ended, as far as is known: its code and what its error file holds. Never waits."""

    def tell(self, signum: int) -> None:
        """Sends a signal. Never waits."""

    def training(self, model_dir: str) -> dict:
        """What was known of `training.json` there, a moment ago. Never waits."""


class RemoteTask:
    """To the supervisor what a RunningTask is, and that one's process as well."""

    def __init__(self, command: Command, host: Host, folder: str | None, life: int = 1):
        self.command, self.life, self._host = command, life, host
        self.told: int | None = None
        self._ended: tuple[int, dict] | None = None
        self.process = self
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

    def send(self, signum: int) -> None:
        if self._ended is None:
            with contextlib.suppress(HostLost):  # `poll` finds out
                self._host.tell(signum)

    def tell(self, signum: signal.Signals) -> None:
        self.told = signum
        self.send(signum)

    def end(self, code: int, secs: float) -> Ended:
        error = TaskError.of(self._ended[1]) if code else None
        return Ended(self.name, code, secs, self.told, error, self.life)

    def close(self) -> None:
        self.send(signal.SIGKILL)


class RemoteSupervisor(Supervisor):
    """Runs one gang, each task on the host of its name."""

    def __init__(self, hosts: Mapping[str, Host], folder: str | None, **kwargs):
        super().__init__(**kwargs)
        self._hosts, self._working_dir = hosts, folder

    def _timeout(self) -> float:
        return min(super()._timeout(), POLL_SECS)  # no pipe wakes us

    def _spawn(self, command: Command, life: int) -> Ended | None:
        try:
            self._running.append(RemoteTask(command, self._hosts[command.name], self._working_dir, life))
        except CannotStart as error:
            self._ended.append(never_started(command.name, life, time.monotonic() - self._started, error))
            return self._ended[-1]
        return None


class RemoteWatch(training.Watch):
    """Looks at the training through the host of the chief.

    Attributes:
        saved: the step of the last checkpoint, whichever gang has it, as far as was seen. It falls where a gang
            sets aside damaged ones.
    """

    def __init__(self, host: Host, model_dir: str, generation: str, stall_secs: float, now: float, saved: int = 0):
        super().__init__(model_dir, generation, stall_secs, now)
        self._host, self.saved = host, saved

    def look_now(self) -> None:
        try:
            found = training.Training.of(self._host.training(self._model_dir))
        except HostLost:
            return
        if found is None:
            return
        if found.checkpoint_step is not None:
            self.saved = found.checkpoint_step
        if found.generation == self._generation:
            self.training = found
