"""What the trainer tells a job about its run, and the epochs of the run in steps.

One epoch is rarely a whole number of steps, so all of it is exact arithmetic: in floating point, 15 epochs of
1,000 examples in batches of 15 are 1,001 steps or 1,000, depending on the order of the operations.
"""

import dataclasses
import fractions
import math
from collections.abc import Mapping
from typing import Any

from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import param_values


@dataclasses.dataclass(frozen=True)
class RunParams:
    """The params of a run. A job gets them as a dict (`as_dict`); nothing else reads that dict.

    Attributes:
        job: the job's own params, after --param.
        batch_size: examples of one step of one replica; in an evaluation, of one batch of one replica.
        global_batch_size: examples of one step of all replicas.
        initial_replicas: `num_replicas` as the run began.
        max_steps: the global step at which training ends.
        num_examples: of the training split; None: unknown, and the run is one epoch.
        start_step: the global step from which training goes on.
        image_shape: (height, width, channels) where the job reads --dataset.
        position_shift: examples that were trained beyond step x global_batch_size: not 0 if the run has had another
            global batch before.
    """

    job: Mapping[str, Any]
    batch_size: int
    num_replicas: int
    initial_replicas: int
    global_batch_size: int
    max_steps: int
    num_examples: int | None
    seed: int
    start_step: int = 0
    image_shape: tuple | None = None
    position_shift: int = 0

    def as_dict(self) -> dict:
        """A dict of its own for each caller: the job's params and those of `jobs.job.RUN_PARAMS`."""
        params = {
            **{name: param_values.own(value) for name, value in self.job.items()},
            'batch_size': self.batch_size,
            'num_replicas': self.num_replicas,
            'initial_replicas': self.initial_replicas,
            'global_batch_size': self.global_batch_size,
            'max_steps': self.max_steps,
            'steps_per_epoch': self.steps_per_epoch,
            'seed': self.seed,
            'start_step': self.start_step,
            'position_shift': self.position_shift,
        }
        return params if self.image_shape is None else {**params, 'image_shape': tuple(self.image_shape)}

    @property
    def steps_per_epoch(self) -> float:
        return self.num_examples / self.global_batch_size if self.num_examples else self.max_steps

    def end_of_epoch(self, epoch: int) -> int:
        """The step at which `epoch` epochs have been trained, and maybe a part of the next one."""
        return steps(epoch, self._epoch_examples, self.global_batch_size, self.position_shift)

    def epochs_at(self, step: int) -> int:
        """How many whole epochs the first `step` steps have trained."""
        return (step * self.global_batch_size + self.position_shift) // self._epoch_examples

    @property
    def _epoch_examples(self) -> int:
        return self.num_examples or self.max_steps * self.global_batch_size


def steps(epochs, examples: int, global_batch_size: int, position_shift: int = 0) -> int:
    """The first step after which each example has been trained on `epochs` times.

    Args:
        epochs: a number. A float means what it is printed as: 0.1 is a tenth.
        position_shift: as of RunParams.
    """
    return max(0, math.ceil((fractions.Fraction(str(epochs)) * examples - position_shift) / global_batch_size))


def last_step(max_steps, epochs, examples, global_batch_size: int, position_shift: int = 0) -> int:
    """The step at which a run ends.

    Args:
        max_steps, epochs: the flags, of which one is None.
        examples: of the training split; None: unknown.
        position_shift: as of RunParams.

    Raises:
        UsageError: epochs are asked for, and `examples` is unknown.
    """
    if max_steps is not None:
        return max_steps
    if examples is None:
        raise unknown_epochs(epochs)
    return steps(epochs, examples, global_batch_size, position_shift)


def unknown_epochs(epochs) -> UsageError:
    return UsageError(
        f'--epochs={epochs}: the job does not say how many examples it has (Job.num_train_examples); use --max_steps.'
    )
