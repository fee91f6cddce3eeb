"""What the ends of tasks mean for the run. Pure."""

import dataclasses
import enum
import signal
from collections.abc import Sequence

from estimator_trainer import exit_codes


@dataclasses.dataclass(frozen=True)
class Ended:
    """How one task ended."""

    name: str
    code: int  # its exit code, or minus the number of the signal that ended it
    secs: float  # since the gang was started

    @property
    def exit_code(self) -> int:
        """The code as a shell gives it: 128 + N for signal N."""
        return 128 - self.code if self.code < 0 else self.code


class Why(enum.Enum):
    """Why a gang came to its end."""

    DONE = 'done'  # every task ended with 0
    FAILED = 'failed'  # a task ended otherwise
    SIGNALLED = 'signalled'  # we were told to stop
    NOT_DRAINED = 'not drained'  # training was done, but a ps or the evaluator did not end


@dataclasses.dataclass(frozen=True)
class Stop:
    """The decision that a gang is over, and what led to it."""

    why: Why
    cause: Ended | None = None  # FAILED
    signum: signal.Signals | None = None  # SIGNALLED
    late: tuple[str, ...] = ()  # NOT_DRAINED: the tasks that went on

    @property
    def exit_code(self) -> int:
        match self.why:
            case Why.DONE:
                return exit_codes.OK
            case Why.FAILED:
                return self.cause.exit_code
            case Why.SIGNALLED:
                return 128 + self.signum
            case Why.NOT_DRAINED:
                return exit_codes.FAILED


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The whole story of one gang."""

    stop: Stop
    ended: tuple[Ended, ...]  # every task, in the order they were seen to end
    secs: float


def cause(ended: Sequence[Ended]) -> Ended | None:
    """Of tasks found ended at the same time, the one that failed first as far as can be told.

    A lost peer makes others end with a code from 128 on ("restart me", such as 143). So these
    come last; before them codes that say the task itself is at fault; and first of all a death
    by signal, which takes others along with any code. Ties go to the first in `ended`.
    """

    def rank(task: Ended) -> int:
        if task.code < 0:
            return 0
        return 1 if task.code < 128 else 2

    return min((task for task in ended if task.code != 0), key=rank, default=None)
