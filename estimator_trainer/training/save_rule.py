"""What the flags say of when a checkpoint is saved. `loop.Saves` follows it. Imports no TensorFlow."""

from typing import NamedTuple

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
