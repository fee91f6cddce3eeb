"""What is due after which step: reports, summaries and checkpoints, and how many steps a call takes. Imports no
TensorFlow."""

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from estimator_trainer.config.trainer_config import TrainerConfig
    from estimator_trainer.jobs.run_params import RunParams

_SAVE_SECS = 600  # where no flag says it
_CALL_SECS = 0.2  # that a call should take: a signal or another task is heard after it
MOST_STEPS_OF_CALL = 1000
LONGEST_CALL_SECS = 0.5  # after which a call ends early: steps may become slower at any time


def every(first: int, frequency: int | None) -> Callable[[int], int | None]:
    """(step) -> the next step after it that is a multiple of `frequency` steps after `first`; None: never."""

    def next_(step: int) -> int | None:
        if not frequency:
            return None
        return first if step < first else step + frequency - (step - first) % frequency

    return next_


def in_call(counts: list[int], frequency: int | None) -> list[int]:
    """After which steps of a call something is due that comes every `frequency` steps.

    Args:
        counts: the steps that were counted before the call and after each of its steps.

    Returns:
        The numbers of these steps in the call, from 0 on.
    """
    if not frequency:
        return []
    return [
        number
        for number, (before, count) in enumerate(zip(counts, counts[1:]))
        if count // frequency > before // frequency
    ]


class SaveRule(NamedTuple):
    """What lies between two checkpoints; None: that does not count."""

    steps: int | None = None
    secs: float | None = None
    epochs: int | None = None

    def __str__(self) -> str:
        numbers = ((self.steps, 'steps'), (self.secs, 's'), (self.epochs, 'epoch(s)'))
        return ', and '.join(f'every {number} {unit}' for number, unit in numbers if number)


def save_rule(config: 'TrainerConfig') -> SaveRule:
    """What the flags of a TrainerConfig say."""
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

    def __init__(self, rule: SaveRule, params: 'RunParams | None' = None):
        self._rule, self._params = rule, params

    def saved(self, step: int) -> None:
        """A checkpoint of this step is saved, or training begins after it."""
        self.step, self._at = step, time.monotonic()

    def due_by_clock(self) -> bool:
        return time.monotonic() - self._at >= (self._rule.secs or math.inf)

    def due_after(self, step: int) -> bool:
        """Whether one is due after this step, whatever the clock says."""
        if self._rule.steps and step >= self.step + self._rule.steps:
            return True
        if not self._rule.epochs or self._params is None:
            return False
        epoch = self._params.epochs_at(step)
        return epoch % self._rule.epochs == 0 and self._params.end_of_epoch(epoch) == step

    def next(self, step: int) -> int | None:
        """The step after `step` after which one is due by steps, or None."""
        return every(self.step, self._rule.steps)(step)


class CallLengths:
    """Lengths of calls. A call ends where something is due, and takes about 0.2 s or the given number of steps.

    Args:
        steps: of a call, at most; None: as many as take 0.2 s.
        next_due: (step) -> the next step after it after which a call has to end.
        longest: steps of a call at most where `steps` is None.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        steps: int | None,
        next_due: Callable[[int], int],
        longest: int = MOST_STEPS_OF_CALL,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._steps, self._next_due, self._longest, self._clock = steps, next_due, longest, clock
        self._length = steps or 1
        self._began: float | None = None

    def of_call_after(self, step: int) -> int:
        """The steps of the call that begins after `step`: at least 1."""
        return max(1, min(self._next_due(step) - step, self._length))

    def begin(self) -> None:
        """A call begins."""
        self._began = self._clock()

    def took(self, steps: int) -> None:
        """The call that has begun took `steps` steps."""
        if self._steps is not None or self._began is None:
            return
        fit = int(_CALL_SECS / max((self._clock() - self._began) / max(1, steps), 1e-9))
        self._length = max(1, min(2 * self._length, fit, self._longest))
