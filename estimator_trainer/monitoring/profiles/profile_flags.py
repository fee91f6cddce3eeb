"""What --profile_steps and --profile_tasks ask for. Pure."""

import re
from typing import NamedTuple

from estimator_trainer.errors import UsageError

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


def check_tasks(text: str, training_tasks) -> None:
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
