"""A trial, as the other modules of the sweep know it. Pure."""

import dataclasses
import enum
import os
from collections.abc import Iterable, Mapping, Sequence


class CannotStore(Exception):
    """The trials cannot be written down, or not be read. The message names the file."""


class TrialStatus(enum.Enum):
    RUNNING = 'running'  # or interrupted: the next start goes on with it
    DONE = 'done'
    PRUNED = 'pruned'
    FAILED = 'failed'


@dataclasses.dataclass(frozen=True)
class Trial:
    """Attributes:
    number: from 1.
    params: name -> value.
    value: of the metric: of the last evaluation; of a pruned trial, that at which it was pruned.
    step: of that evaluation.
    reported: thousandths of the training -> value, of the evaluations that the sampler and the pruner know.
    exit_code, cause: of a failed trial.
    secs: that the trial took, in this start of the sweep.
    """

    number: int
    state: TrialStatus
    params: Mapping
    value: float | None = None
    step: int | None = None
    reported: Mapping[int, float] = dataclasses.field(default_factory=dict)
    exit_code: int | None = None
    cause: str = ''
    secs: float | None = None


def folder_of(folder: str, number: int) -> str:
    """The model_dir of a trial."""
    return os.path.join(folder, f'trial-{number:04d}')


def best(trials: Iterable[Trial], maximizes: bool) -> Trial | None:
    """The best trial that is done, of equal ones the first; None without one."""
    done = [trial for trial in trials if trial.state is TrialStatus.DONE and trial.value is not None]
    sign = -1 if maximizes else 1
    return min(done, key=lambda trial: (sign * trial.value, trial.number), default=None)


def to_go_on_with(trials: Sequence[Trial]) -> list[int]:
    """The numbers of the trials that an earlier start has left, in the order in which they go on."""
    return sorted(trial.number for trial in trials if trial.state is TrialStatus.RUNNING)


def is_hopeless(trials: Sequence[Trial], failed_now: int, most: int) -> bool:
    """Whether to give up: `failed_now` trials of this start have failed, and none in the folder has ever done better.

    Args:
        most: so many failures are enough.
    """
    return failed_now >= most and all(trial.state in (TrialStatus.FAILED, TrialStatus.RUNNING) for trial in trials)
