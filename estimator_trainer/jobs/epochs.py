"""Epochs in steps. One epoch is rarely a whole number of steps, so all of it is exact arithmetic:
in floating point, 15 epochs of 1,000 examples in batches of 15 are 1,001 steps or 1,000, depending on
the order of the operations.
"""

import fractions
import math

from estimator_trainer.errors import UsageError


def steps(epochs, examples: int, global_batch_size: int) -> int:
    """The first step after which each example has been trained on `epochs` times.

    Args:
        epochs: a number. A float means what it is printed as: 0.1 is a tenth.
    """
    return math.ceil(fractions.Fraction(str(epochs)) * examples / global_batch_size)


def finished(step: int, examples: int, global_batch_size: int) -> int:
    """How many whole epochs the first `step` steps have trained."""
    return step * global_batch_size // examples


def examples_of(params) -> int:
    """The examples of one epoch of a run, by its params."""
    return round(params['steps_per_epoch'] * params['global_batch_size'])


def run_params(max_steps, epochs, examples, global_batch_size: int) -> dict:
    """The params of a run that say how long it trains: max_steps and steps_per_epoch.

    Args:
        max_steps, epochs: the flags, of which one is None.
        examples: of the training split; None: unknown, and the run is one epoch.

    Raises:
        UsageError: epochs are asked for, and `examples` is unknown.
    """
    if max_steps is None:
        if examples is None:
            raise UsageError(
                f'--epochs={epochs}: the job does not say how many examples it has '
                '(Job.num_train_examples); use --max_steps.'
            )
        max_steps = steps(epochs, examples, global_batch_size)
    return {'max_steps': max_steps, 'steps_per_epoch': examples / global_batch_size if examples else max_steps}
