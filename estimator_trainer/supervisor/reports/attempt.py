"""One attempt of a run: what a gang was, and what came of it. Pure."""

import dataclasses
import pathlib
import signal
from collections.abc import Mapping

from estimator_trainer.run_dir.training_file import TrainingStatus
from estimator_trainer.supervisor.policy.causes import EndedBy, GangOutcome


@dataclasses.dataclass(frozen=True)
class Attempt:
    """One gang, from start to end."""

    number: int
    generation: str
    workers: int
    addresses: Mapping[str, str]  # by name of task
    folder: pathlib.Path  # of its logs
    started: float  # seconds since the epoch
    outcome: GangOutcome
    training: TrainingStatus | None = None  # as it was seen last
    checkpoint_before: int | None = None  # step of the checkpoint that it began with
    checkpoint_named: int | None = None  # by the file `checkpoint`, after it
    oom_kills: int = 0  # of the kernel in our control group, meanwhile

    @property
    def checkpoint(self) -> int | None:
        """The step of the checkpoint that the next attempt goes on from; None: none, as far as is known.

        It may be lower than `checkpoint_before`: this attempt has then set aside damaged ones.
        """
        told = self.training.checkpoint_step if self.training else None
        known = (self.checkpoint_named, told, self.checkpoint_before)
        return next((step for step in known if step is not None), None)

    @property
    def step(self) -> int | None:
        """The last step that was seen to be done; None: none was."""
        return self.training.step if self.training else None

    @property
    def steps_lost(self) -> int | None:
        """Steps that were done, but not saved."""
        return None if self.step is None else max(0, self.step - (self.checkpoint or 0))

    @property
    def out_of_memory(self) -> bool:
        """Whether the task at fault may have been killed for want of memory."""
        ended = self.outcome.end.at_fault
        killed = ended is not None and ended.code == -signal.SIGKILL and ended.how is EndedBy.BY_ITSELF
        return killed and self.oom_kills > 0
