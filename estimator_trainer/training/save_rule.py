"""When a checkpoint is saved: what the flags say, and `Saves`, which follows it. Imports no TensorFlow."""

import time
from typing import NamedTuple

from estimator_trainer.training.dues import every

_SAVE_SECS = 600  # where no flag says it


class SaveRule(NamedTuple):
    """What lies between two checkpoints; None: that does not count."""

    steps: int | None = None
    secs: float | None = None
    epochs: int | None = None

    def __str__(self):
        numbers = ((self.steps, 'steps'), (self.secs, 's'), (self.epochs, 'epoch(s)'))
        return ', and '.join(f'every {number} {unit}' for number, unit in numbers if number)


def of_flags(config) -> SaveRule:
    """The rule of a TrainerConfig."""
    steps, secs, epochs = config.save_checkpoints_steps, config.save_checkpoints_secs, config.save_checkpoints_epochs
    if not (steps or secs or epochs):
        secs = _SAVE_SECS
    if config.loop == 'keras_fit':
        epochs = epochs or 1
    return SaveRule(steps, secs, epochs)


class Saves:
    """When a checkpoint is due: so many steps or seconds after the last one, or at the ends of epochs.

    Args:
        rule: between two checkpoints.
        params: RunParams, which know the epochs.
    """

    def __init__(self, rule: SaveRule, params=None):
        self._rule, self._params = rule, params

    def saved(self, step: int) -> None:
        """A checkpoint of this step is saved, or training begins after it."""
        self.step, self._at = step, time.monotonic()

    def due_by_clock(self) -> bool:
        return bool(self._rule.secs) and time.monotonic() - self._at >= self._rule.secs

    def due_after(self, step: int) -> bool:
        """Whether one is due after this step, whatever the clock says."""
        if self._rule.steps and step >= self.step + self._rule.steps:
            return True
        if not self._rule.epochs:
            return False
        epoch = self._params.epochs_at(step)
        return epoch % self._rule.epochs == 0 and self._params.end_of_epoch(epoch) == step

    def next(self, step: int) -> int | None:
        """The step after `step` after which one is due by steps, or None."""
        return every(self.step, self._rule.steps)(step)
