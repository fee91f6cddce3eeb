"""The params that the trainer gives a job about its run, and the steps that epochs take.

One epoch is rarely a whole number of steps, so the arithmetic is exact. In floating point, 15 epochs of 1,000 examples
in batches of 15 are 1,001 steps or 1,000, depending on the order of the operations.
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
    """The params of a run. A job gets them as a dict (`as_dict`). Only jobs read that dict.

    Attributes:
        job: the job's own params, with the values of --param.
        batch_size: examples of one step of one replica; in an evaluation, of one batch of one replica.
        num_replicas: the number of replicas that train. One that accumulates K batches counts as K replicas.
        initial_replicas: `num_replicas` at the beginning of the run.
        global_batch_size: examples of one step of all replicas.
        max_steps: the global step at which training ends.
        num_examples: examples of the training split; None if unknown, and then the run is one epoch.
        seed: the value of --seed.
        start_step: the global step from which training continues.
        image_shape: (height, width, channels) if the job reads --dataset.
        position_shift: the number of trained examples minus step x global_batch_size. It is not 0 if the run had
            another global batch before.
        accumulate_steps: batches of a replica that make up a step.
        replicas_per_task: replicas of one task, which take the batches of its input_fn in turn.
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
    image_shape: tuple[int, int, int] | None = None
    position_shift: int = 0
    accumulate_steps: int = 1
    replicas_per_task: int = 1

    def as_dict(self) -> dict[str, Any]:
        """A new dict with the job's params and those of `jobs.job.RUN_PARAMS`."""
        params = {
            **{name: param_values.own(value) for name, value in self.job.items()},
            'batch_size': self.batch_size,
            'num_replicas': self.num_replicas,
            'initial_replicas': self.initial_replicas,
            'replicas_per_task': self.replicas_per_task,
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
        """The steps of one epoch, rarely a whole number."""
        return self.num_examples / self.global_batch_size if self.num_examples else self.max_steps

    def end_of_epoch(self, epoch: int) -> int:
        """The first step after which `epoch` epochs have been trained."""
        return steps(epoch, self._epoch_examples, self.global_batch_size, self.position_shift)

    def epochs_at(self, step: int) -> int:
        """The number of whole epochs that the first `step` steps have trained."""
        return (step * self.global_batch_size + self.position_shift) // self._epoch_examples

    @property
    def _epoch_examples(self) -> int:
        return self.num_examples or self.max_steps * self.global_batch_size


def steps(epochs: float, examples: int, global_batch_size: int, position_shift: int = 0) -> int:
    """The first step after which each example has been trained on `epochs` times.

    Args:
        epochs: the number of epochs. A float counts as the decimal number that it is printed as: 0.1 is a tenth.
        examples: the number of examples of an epoch.
        global_batch_size, position_shift: see RunParams.
    """
    return max(0, math.ceil((fractions.Fraction(str(epochs)) * examples - position_shift) / global_batch_size))


def last_step(
    max_steps: int | None, epochs: float | None, examples: int | None, global_batch_size: int, position_shift: int = 0
) -> int:
    """The step at which a run ends.

    Args:
        max_steps, epochs: the flags, of which one is None.
        examples: the number of examples of the training split; None if unknown.
        global_batch_size, position_shift: see RunParams.

    Raises:
        UsageError: --epochs is given, and `examples` is unknown.
    """
    if max_steps is not None:
        return max_steps
    if examples is None or epochs is None:
        raise unknown_epochs(epochs)
    return steps(epochs, examples, global_batch_size, position_shift)


def unknown_epochs(epochs: float | None) -> UsageError:
    """The error for --epochs with a job that does not say how many examples it has."""
    return UsageError(
        f'--epochs={epochs}: the job does not say how many examples it has (Job.num_train_examples); use --max_steps.'
    )
