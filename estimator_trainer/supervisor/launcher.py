"""Where a gang's tasks run: what the supervisor asks of it, whether it is this machine or a cluster of Ray's."""

import selectors
import signal
from typing import Protocol

from estimator_trainer import exit_codes
from estimator_trainer.supervisor.policy.causes import TaskEnd, TaskError
from estimator_trainer.supervisor.policy.task_commands import TaskCommand


class CannotStart(OSError):
    """A task cannot be started, or its log not be written."""


class StartedTask(Protocol):
    """A task that was started.

    Attributes:
      life: its starts within the gang, from 1.
    """

    command: TaskCommand
    life: int

    @property
    def name(self) -> str: ...

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None:
        """Its exit code; -N if signal N ended it; None while it runs. Never waits."""

    def tell(self, signum: signal.Signals) -> None:
        """Sends a signal. Never waits."""

    def end(self, code: int, secs: float) -> TaskEnd:
        """What it has to show, once it has ended with `code`. Closes everything."""

    def kill(self) -> None:
        """Kills what is left of it, at once."""

    def close(self) -> None:
        """Kills what is left of it and closes everything."""


class Launcher(Protocol):
    """Starts the tasks of one gang.

    Attributes:
      look_secs: so often tasks have to be looked at, because their ends wake nobody; infinity where they do.
    """

    look_secs: float

    def start(self, command: TaskCommand, number: int, life: int, selector: selectors.BaseSelector) -> StartedTask:
        """Starts a task. Bounded.

        Args:
          number: of the task within the gang, for the colour of its name.
          selector: may be given descriptors, with an object whose `read(fd)` is then called.

        Raises:
          CannotStart: nothing of it is left.
        """


def never_started(name: str, life: int, secs: float, error: CannotStart) -> TaskEnd:
    """The end of a task that had no beginning."""
    said = TaskError(f'cannot be started: {error}')
    return TaskEnd(name, exit_codes.FAILED, secs, error=said, life=life, never_started=True, began=secs)
