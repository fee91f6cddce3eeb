"""What is started again, and when. Pure: time and chance are passed in."""

import dataclasses
import enum
import pathlib
import random
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence

from estimator_trainer import exit_codes
from estimator_trainer.run_dir.training_file import TrainingStatus
from estimator_trainer.supervisor.policy.causes import Cause, EndedBy, GangOutcome

SAVE_MARGIN_SECS = 5  # a trainer's own bound for saving ends so much before it is killed
BACKOFF_CAP_SECS = 60
JITTER = 0.5  # at most so much longer, so that gangs which failed together come back one by one

# An evaluator or a worker that ends with one of these has nothing to gain from another life.
USAGE_LIKE = frozenset((exit_codes.USAGE, exit_codes.DAMAGED, exit_codes.NO_DATA))

# Failures that show only after a long wait: those that repeat for ever may lie further apart than the window.
LONG_WAITS = frozenset((exit_codes.STALLED, exit_codes.NO_PEER))


@dataclasses.dataclass(frozen=True)
class Rules:
    """How often and how soon a gang is restarted, and each task that is restarted alone."""

    max_restarts: int = 3
    window_secs: float = 3600  # a machine that fails this rarely is worth going on with
    backoff_secs: float = 1  # before the first restart

    def delay(self, spent: int, rng: random.Random) -> float:
        """Seconds before the restart that follows `spent` others."""
        doubled = self.backoff_secs * 2 ** min(spent, 64)
        return min(doubled * rng.uniform(1, 1 + JITTER), BACKOFF_CAP_SECS)


@dataclasses.dataclass(frozen=True)
class Limits:
    """How long the tasks of a gang may take, in seconds."""

    grace_secs: float = 30  # from SIGTERM to SIGKILL; SAVE_MARGIN_SECS more than the trainer's --grace_secs
    drain_secs: float = 600  # for ps and evaluator, when training is done
    stall_timeout: float = 1800  # without a step, as the trainer's --step_timeout_secs; 0: for ever


def stall_bound(step_timeout_secs: float) -> float:
    """`stall_timeout` for trainers with this --step_timeout_secs: they have the time that their own flag allows."""
    return step_timeout_secs and max(Limits.stall_timeout, step_timeout_secs)


@dataclasses.dataclass(frozen=True)
class Failure:
    """One failure of the gang, with what a decision needs to know of it."""

    at: float  # seconds of a clock that never goes back
    code: int  # of the cause, as a shell gives it
    checkpoint: int = 0  # step of the checkpoint that the next gang goes on from; 0: there is none
    task: str = ''  # at fault; '' if none is
    step: int | None = None  # at which the task failed
    workers: int = 1  # of the gang
    never_started: bool = False
    alone: bool = False  # a task that had been restarted alone as often as allowed
    permanent: bool = False  # whatever the code is


@dataclasses.dataclass(frozen=True)
class Attempt:
    """One gang, from start to end."""

    number: int
    generation: str
    workers: int
    addresses: Mapping[str, str]  # by name of task
    folder: pathlib.Path  # of its logs
    started: float  # seconds since the epoch
    outcome: GangOutcome
    training: TrainingStatus | None = None  # as it was seen last
    checkpoint_before: int | None = None  # step of the checkpoint that it began with
    checkpoint_named: int | None = None  # by the file `checkpoint`, after it
    oom_kills: int = 0  # of the kernel in our control group, meanwhile
    reported: int | None = None  # the last step in metrics.jsonl, which may be newer than `training`

    @property
    def checkpoint(self) -> int | None:
        """The step of the checkpoint from which the next attempt goes on. None: as far as is known, there is none.

        It may be lower than `checkpoint_before`: this attempt has then set aside damaged ones.
        """
        written = self.training.checkpoint_step if self.training else None
        known = (self.checkpoint_named, written, self.checkpoint_before)
        return next((step for step in known if step is not None), None)

    @property
    def step(self) -> int | None:
        """The last step that was seen to be done, by whatever file says so. None: no step was."""
        by_tasks = (task.error.step for task in self.outcome.ended if task.error)
        known = (self.training.step if self.training else None, self.reported, *by_tasks)
        return max((step for step in known if step is not None), default=None)

    @property
    def steps_lost(self) -> int | None:
        """How many steps were done, but not saved."""
        return None if self.step is None else max(0, self.step - (self.checkpoint or 0))

    @property
    def out_of_memory(self) -> bool:
        """Whether the task at fault may have been killed for want of memory."""
        ended = self.outcome.end.at_fault
        killed = ended is not None and ended.code == -signal.SIGKILL and ended.how is EndedBy.BY_ITSELF
        return killed and self.oom_kills > 0


class Reason(enum.Enum):
    RESTART = 'restart'
    NEVER = 'restarts are off'
    PERMANENT = 'the same command would fail the same way'
    REPEATED = 'an exception again, at the same step or with no new checkpoint'
    SPENT = 'the restarts are spent'


@dataclasses.dataclass(frozen=True)
class Decision:
    """What follows a failure."""

    reason: Reason
    exit_code: int  # if this is the end
    number: int = 0  # which one of `max_restarts`; with SPENT, how many there were
    delay: float = 0.0

    @property
    def restart(self) -> bool:
        return self.reason is Reason.RESTART


def is_permanent(code: int) -> bool:
    """Whether another try is in vain. Code 1, an exception, may have been bad luck once."""
    return not exit_codes.retryable(code) and code != exit_codes.FAILED


def progressed(failures: Sequence[Failure], number: int) -> bool:
    """Whether the gang of failures[number] has saved a checkpoint beyond the one that it began with.

    That is the one with which the gang before it ended. If it was damaged and an older one was taken, the gang
    after this one is measured by what this one has left.
    """
    return number > 0 and failures[number].checkpoint > failures[number - 1].checkpoint


def decide(failures: Sequence[Failure], rules: Rules, rng: random.Random) -> Decision:
    """Decides what follows the last of `failures`. Each of the others was followed by a restart.

    1. A permanent code or error ends the run with the code.
    2. So does an exception that comes again at the same step, or without a new checkpoint since.
    3. Any other failure is followed by a restart, `max_restarts` times within `window_secs`, each
       after twice the delay of the one before. The restarts after one of LONG_WAITS count however long ago they were.
    4. A new checkpoint resets the count and the delay, unless the failed task writes no checkpoints: it could
       fail for ever.
    """
    last = failures[-1]
    if is_permanent(last.code) or last.permanent:
        return Decision(Reason.PERMANENT, last.code)
    if rules.max_restarts == 0:
        return Decision(Reason.NEVER, last.code)
    if _repeats(failures):
        return Decision(Reason.REPEATED, last.code)
    spent = 0
    for number, failure in enumerate(failures):
        if progressed(failures, number) and not failure.alone:
            spent = 0
        lasts = failure.code in LONG_WAITS and not failure.alone
        if failure is not last and (lasts or last.at - failure.at < rules.window_secs):
            spent += 1
    if spent >= rules.max_restarts:
        return Decision(Reason.SPENT, exit_codes.RESTARTS_SPENT, spent)
    return Decision(Reason.RESTART, last.code, spent + 1, rules.delay(spent, rng))


def _repeats(failures: Sequence[Failure]) -> bool:
    exceptions = [f for f in failures if f.code == exit_codes.FAILED and not f.never_started]
    if len(exceptions) < 2 or exceptions[-1] is not failures[-1]:
        return False
    before, last = exceptions[-2:]
    since = range(failures.index(before) + 1, len(failures))
    same_step = last.step is not None and last.step == before.step
    return same_step or not any(progressed(failures, number) for number in since)


class History:
    """The failures of one run. The gang was started again after each but the last.

    Args:
      alone: whether the task of this name had been restarted alone, as often as allowed, before its failure became one
        of the gang; never where an engine only restarts all tasks.
      earlier: failures, as `asdict` gives them.
    """

    def __init__(self, rules: Rules, rng: random.Random, alone: Callable[[str], bool], earlier: Iterable[Mapping] = ()):
        self.rules, self._rng, self._alone = rules, rng, alone
        self.failures = [Failure(**failure) for failure in earlier]

    def decide(self, cause: Cause, now: float, checkpoint: int, workers: int = 1) -> Decision:
        """Decides what follows the failure of a gang for this cause."""
        error = cause.ended.error if cause.ended else None
        failure = Failure(
            at=now,
            code=cause.code,
            checkpoint=checkpoint,
            task=cause.name,
            step=error.step if error else None,
            workers=workers,
            never_started=bool(cause.ended and cause.ended.never_started),
            alone=self._alone(cause.name),
            permanent=bool(error and error.permanent),
        )
        self.failures.append(failure)
        return decide(self.failures, self.rules, self._rng)


class TaskRestartBudgets:
    """Restarts of single tasks while the others go on. Each task has a budget of its own.

    Attributes:
      made: how many restarts there have been, of all tasks together. Whoever starts a task again counts it.
    """

    def __init__(self, rules: Rules, rng: random.Random):
        self._rules, self._rng = rules, rng
        self.max_restarts, self.made = rules.max_restarts, 0
        self._made: dict[str, list[float]] = {}  # the times of the restarts of each task

    def decide(self, name: str, code: int, now: float) -> Decision:
        """Decides what follows the end of task `name` with `code`. A restart is charged to its budget."""
        made = self._made.setdefault(name, [])
        made[:] = [at for at in made if now - at < self._rules.window_secs]
        if code in USAGE_LIKE:
            return Decision(Reason.PERMANENT, code)
        if len(made) >= self._rules.max_restarts:
            return Decision(Reason.SPENT if made else Reason.NEVER, code)
        delay = self._rules.delay(len(made), self._rng)
        made.append(now)
        return Decision(Reason.RESTART, code, len(made), delay)


def is_at_fault_again(failures: Sequence[Failure]) -> bool:
    """Whether the gang would do better without the worker that failed last.

    It is not the chief, and it could not be started, or was the cause of the last two failures of
    this same gang with no new checkpoint between them.
    """
    last = failures[-1]
    if not last.task.startswith('worker:') or last.task == 'worker:0':
        return False
    if last.never_started:
        return True
    before = failures[-2] if len(failures) > 1 else None
    return (
        before is not None
        and (before.task, before.workers) == (last.task, last.workers)
        and not progressed(failures, len(failures) - 1)
    )


def fewer_workers(workers: int, min_workers: int, global_batch: int) -> int | None:
    """The next smaller number of workers that share `global_batch` evenly. None: there is none."""
    numbers = range(workers - 1, min_workers - 1, -1)
    return next((number for number in numbers if global_batch % number == 0), None)
