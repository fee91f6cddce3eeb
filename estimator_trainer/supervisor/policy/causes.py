"""What the ends of tasks mean for their gang. Pure."""

import dataclasses
import enum
import signal
from collections.abc import Container, Iterable, Mapping, Sequence

from estimator_trainer import error_lines, exit_codes
from estimator_trainer.run_dir import training_file

GOOD_ORDER = frozenset((exit_codes.INTERRUPTED, exit_codes.TERMINATED))
ORDERS = (signal.SIGTERM, signal.SIGINT)  # that ask a task to save and end
_TRACEBACK_LINES = 20  # of what a program has printed


@dataclasses.dataclass(frozen=True)
class TaskError:
    """What a task says of its own end, in its error file (protocol.py)."""

    message: str
    step: int | None = None
    peer: str | None = None
    traceback: tuple[str, ...] = ()
    follows: bool = False  # it stopped because another task was told to
    permanent: bool = False  # a restart would fail the same way

    @classmethod
    def from_record(cls, value: Mapping) -> 'TaskError | None':
        """Reads the content of the file, which a job may have spoiled. None for {}."""
        if not value:
            return None
        step, peer, traceback = value.get('step'), value.get('peer'), value.get('traceback')
        return cls(
            message=' '.join(str(value.get('message') or '').split()),
            step=step if type(step) is int else None,
            peer=peer if isinstance(peer, str) and peer else None,
            traceback=tuple(map(str, traceback)) if isinstance(traceback, list) else (),
            follows=value.get('follows') is True,
        )

    @classmethod
    def from_output(cls, lines: Sequence[str]) -> 'TaskError | None':
        """Reads the last lines that a program has printed. None without a traceback of Python's at their end."""
        message, trace = error_lines.last_words(lines), error_lines.last_traceback(lines)
        if not message:
            return None
        # Who says what to change knows that nothing else helps.
        permanent = bool(error_lines.last_cure(lines))
        return cls(message, traceback=tuple(trace[-_TRACEBACK_LINES:]), permanent=permanent)


class EndedBy(enum.Enum):
    """Who ended a task."""

    BY_ITSELF = 'by itself'
    STOPPED = 'stopped by the supervisor'
    KILLED = 'killed by the supervisor'
    NEVER_STARTED = 'could not be started'


@dataclasses.dataclass(frozen=True)
class TaskEnd:
    """How one task ended."""

    name: str
    code: int  # its exit code, or minus the number of the signal that ended it
    secs: float  # since the gang was started
    last_signal: int | None = None  # the last one that the supervisor had sent it
    error: TaskError | None = None
    life: int = 1  # 2: it had been restarted alone once
    never_started: bool = False
    began: float = 0.0  # seconds since the gang was started, of this life

    @property
    def message(self) -> str:
        """What the task says of its own end; '' if nothing."""
        return self.error.message if self.error else ''

    @property
    def exit_code(self) -> int:
        """The code as a shell gives it: 128 + N for signal N."""
        return 128 - self.code if self.code < 0 else self.code

    @property
    def how(self) -> EndedBy:
        if self.never_started:
            return EndedBy.NEVER_STARTED
        if self.last_signal in ORDERS and self.code in (0, -self.last_signal, *GOOD_ORDER):
            return EndedBy.STOPPED
        if self.last_signal is not None and self.code == -self.last_signal:
            return EndedBy.KILLED
        return EndedBy.BY_ITSELF


def never_started(name: str, life: int, secs: float, error: OSError) -> TaskEnd:
    """The end of a task that could not be started, `secs` after the start of the gang."""
    record = TaskError(f'cannot be started: {error}')
    return TaskEnd(name, exit_codes.FAILED, secs, error=record, life=life, never_started=True, began=secs)


@dataclasses.dataclass(frozen=True)
class Cause:
    """Why a gang failed."""

    name: str  # of the task; '' if none is to blame
    code: int  # as a shell gives it
    ended: TaskEnd | None = None  # how that task ended; None if it had not
    reporter: TaskEnd | None = None  # how the task ended that missed it

    @property
    def evidence(self) -> TaskEnd | None:
        """The end that says most about the cause; None if there is none."""
        return self.ended or self.reporter


class GangEndKind(enum.Enum):
    """Why a gang came to its end."""

    DONE = 'done'  # every task ended with 0, or serves for ever
    FAILED = 'failed'  # a task ended otherwise
    STALLED = 'stalled'  # no step was finished for too long
    SIGNALLED = 'signalled'  # we were told to stop
    NOT_DRAINED = 'not drained'  # training was done, but a ps or the evaluator did not end


@dataclasses.dataclass(frozen=True)
class GangEnd:
    """The decision to end a gang, and its reason."""

    kind: GangEndKind
    cause: Cause | None = None  # FAILED, STALLED
    signum: signal.Signals | None = None  # SIGNALLED
    late: tuple[str, ...] = ()  # NOT_DRAINED: the tasks that went on

    @property
    def exit_code(self) -> int:
        if self.cause is not None:
            return self.cause.code
        if self.signum is not None:
            return 128 + self.signum
        return exit_codes.OK if self.kind is GangEndKind.DONE else exit_codes.FAILED

    @property
    def at_fault(self) -> TaskEnd | None:
        """How the task ended that is to blame. None if no task is to blame, or if it had not ended."""
        return self.cause.ended if self.cause else None


@dataclasses.dataclass(frozen=True)
class GangOutcome:
    """How a gang ended."""

    end: GangEnd
    ended: tuple[TaskEnd, ...]  # every task, each of its lives, in the order they were seen to end
    secs: float
    signum: signal.Signals | None = None  # we were told to stop, then or before


def first_failure(failures: Iterable[TaskEnd]) -> TaskEnd:
    """The likely first failure among tasks that ended with non-zero codes in one poll. The order is:

    1. A death by signal, which takes others along with any code.
    2. A code that says the task itself is at fault.
    3. "Restart me": stalled, not saved, and codes that we do not know.
    4. A stop in good order: another process may have asked for it.
    5. A stop that followed another task's.
    6. A lost peer, which is the failure of another task.

    Ties go to the first in `failures`, which is not empty.
    """

    def rank(task: TaskEnd) -> int:
        if task.code < 0:
            return 1
        if task.code < 128:
            return 2
        if is_symptom(task):
            return 6
        if is_good_order(task):
            return 5 if follows(task) else 4
        return 3

    return min(failures, key=rank)


def is_symptom(task: TaskEnd) -> bool:
    """Whether it ended because of another task's end."""
    return task.code in exit_codes.SYMPTOMS


def follows(task: TaskEnd) -> bool:
    """Whether it stopped because another task was told to."""
    return task.error is not None and task.error.follows


def is_good_order(task: TaskEnd | None) -> bool:
    """Whether it was told to stop, and has saved what there was to save."""
    return task is not None and task.code in GOOD_ORDER


def restarts_alone(name: str, asynchronous: bool) -> bool:
    """Whether a task can be restarted while the others go on.

    The members of a synchronous gang cannot go on without one of them, nor let it in again.
    """
    role = name.partition(':')[0]
    return role == 'evaluator' or (role == 'worker' and asynchronous)


def settled(end: GangEnd, ended: Sequence[TaskEnd]) -> GangEnd:
    """Returns `end`, once all tasks have ended. A task that only followed another one hands the blame to that one."""
    if end.at_fault is None or not follows(end.at_fault):
        return end
    first = next((task for task in ended if is_good_order(task) and not follows(task)), None)
    return end if first is None else dataclasses.replace(end, cause=Cause(first.name, first.exit_code, first))


def can_save(at_fault: TaskEnd | None, failures: Iterable[TaskEnd], alone: Container[str]) -> bool:
    """Whether the tasks that are left can save: all have agreed to stop, or lack nobody they need.

    Args:
      at_fault: the end of the task that is to blame for `failures`; None if it had not ended.
      alone: tasks that the others can do without.
    """
    return is_good_order(at_fault) or all(task.name in alone for task in failures)


def cause_of(failures: Iterable[TaskEnd], dead: Sequence[TaskEnd] = ()) -> Cause:
    """The cause of a gang's failure, which may be a task that has not even ended.

    Args:
      failures: the ends that make it one, none of them with 0; not empty.
      dead: the last ends of tasks that are not running.
    """
    first = first_failure(failures)
    peer = first.error.peer if is_symptom(first) and first.error else None
    if peer is None or peer == first.name:
        return Cause(first.name, first.exit_code, first)
    for end in dead:
        if end.name == peer and end.code != 0 and not is_symptom(end):
            return Cause(peer, end.exit_code, end, reporter=first)
    return Cause(peer, first.exit_code, reporter=first)


def code_of_stopped(outcome: GangOutcome, state: str | None) -> int:
    """The exit code of a run that was told to stop: 128 + the signal, or NOT_SAVED if the stop has cost steps.

    Args:
      state: the last one that the chief has written into training.json.
    """
    assert outcome.signum is not None
    last = {task.name: task for task in outcome.ended}
    chief = last.get('chief:0') or last.get('worker:0')
    well = chief is None or chief.code == 0 or chief.how is EndedBy.STOPPED
    if outcome.end.kind is GangEndKind.SIGNALLED and state == training_file.TRAINING and not well:
        return exit_codes.NOT_SAVED
    return 128 + outcome.signum
