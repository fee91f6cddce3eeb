"""Which steps are profiled: what --profile_steps and --profile_tasks ask for, and after which calls of TensorFlow a
profile begins and ends. Pure."""

import re
from collections.abc import Collection
from typing import NamedTuple

from estimator_trainer.errors import UsageError

ASKED_STEPS = 20  # of a profile that a signal asks for
CHIEF, ALL = 'chief', 'all'
# TensorFlow holds a profile in memory until it is written, about 1 KB for each event. A step of a large model has
# 10,000 events, so that 100 steps take 1 GB.
MOST_STEPS = 100


class Steps(NamedTuple):
    """The steps after step `after`, up to step `to`: to - after of them."""

    after: int
    to: int


def steps(text: str) -> Steps | None:
    """Reads --profile_steps. None: it is not set.

    Raises:
        UsageError: the value is no such range.
    """
    if not text:
        return None
    given = f'--profile_steps={text}'
    numbers = re.fullmatch(r'(\d+),(\d+)', text)
    if not numbers:
        raise UsageError(f'{given}: give two steps, such as 100,120, to profile the 20 steps after step 100.')
    wanted = Steps(int(numbers[1]), int(numbers[2]))
    if wanted.after >= wanted.to:
        raise UsageError(f'{given}: the second step has to be after the first, such as 100,120.')
    if wanted.to - wanted.after > MOST_STEPS:
        raise UsageError(
            f'{given}: these are {wanted.to - wanted.after} steps; give {MOST_STEPS} at most, because a profile is '
            'held in memory until it is written.'
        )
    return wanted


def check_steps(text: str, max_steps: int | None) -> None:
    """Raises UsageError for a --profile_steps that is no range, or that --max_steps does not reach."""
    wanted = steps(text)
    if wanted and max_steps is not None and wanted.to > max_steps:
        raise UsageError(f'--profile_steps={text}: training ends at --max_steps={max_steps}; give earlier steps.')


def check_tasks(text: str, training_tasks: Collection[str]) -> None:
    """Raises UsageError for a --profile_tasks that names a task which does not train.

    Args:
        training_tasks: names of the tasks of the cluster that train; none for a process of its own.
    """
    if text in (CHIEF, ALL):
        return
    unknown = [name for name in text.split(',') if name not in training_tasks]
    if unknown:
        known = ', '.join([CHIEF, ALL, *training_tasks])
        raise UsageError(f'--profile_tasks={text}: no task {unknown[0]!r} trains here; give one of {known}.')


def includes(text: str, task: str, is_chief: bool) -> bool:
    """Whether --profile_tasks includes a task that trains."""
    if text == CHIEF:
        return is_chief
    return text == ALL or task in text.split(',')


class Schedule:
    """The profiles of one task: of the steps of --profile_steps, and of the next ones after each request.

    Calls take several steps, and only a call's end is a moment at which a profile can begin or end.

    Args:
        wanted: the steps of --profile_steps, or None.
    """

    def __init__(self, wanted: Steps | None):
        self._wanted = wanted
        self._asked = False
        self._until: int | None = None  # the step that ends a profile of --profile_steps
        self._left: int | None = None  # steps of this task that a profile on request still takes
        self._border = 0  # the step at which it ends if no other task moves the global step

    @property
    def recording(self) -> bool:
        return self._until is not None or self._left is not None

    def ask(self) -> bool:
        """Asks for a profile of the next steps. False: one is under way. Any thread may call it."""
        if self.recording:
            return False
        self._asked = True
        return True

    def misses(self, step: int) -> bool:
        """Whether step `step` is past the wanted steps, and none of them was profiled. Says so once."""
        if self._wanted is None or step < self._wanted.to:
            return False
        self._wanted = None
        return True

    def begins(self, step: int) -> bool:
        """Whether a profile begins after this step; if so it is under way from here on."""
        if self.recording:
            return False
        if self._wanted and self._wanted.after <= step < self._wanted.to:
            self._until = self._wanted.to
        elif self._asked:
            self._left, self._border = ASKED_STEPS, step + ASKED_STEPS
        self._asked = self._asked and not self.recording
        return self.recording

    def ends(self, step: int, taken: int) -> bool:
        """Whether the profile that is under way ends after this call.

        Args:
            step: the global step after the call; other tasks may move it as well.
            taken: steps of the call.
        """
        if self._left is not None:
            self._left -= taken
        if (self._until is not None and step >= self._until) or (self._left is not None and self._left <= 0):
            self.end()
            return True
        return False

    def end(self) -> None:
        """The profile that is under way ends here."""
        if self._until is not None:
            self._wanted = None
        self._until = self._left = None

    def postpone(self) -> None:
        """The profile that is under way, which has no steps yet, begins anew later."""
        self._asked = self._left is not None
        self._until = self._left = None

    def border(self, step: int) -> int | None:
        """The step after `step` at which a call should end for the profile on request that is under way."""
        return self._border if self._left is not None and self._border > step else None


def border_of(wanted: Steps | None, step: int) -> int | None:
    """The next step at which a call has to end for --profile_steps. The same in all tasks."""
    return next((border for border in wanted or () if border > step), None)
