"""What is started: the shape of a cluster becomes one command for each task. And what the supervisor asks of a
`Launcher`, which starts them on this machine or elsewhere. Pure.
"""

import dataclasses
import selectors
import signal
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import tf_config
from estimator_trainer.monitoring import report_page
from estimator_trainer.run_dir import protocol
from estimator_trainer.supervisor.policy import causes
from estimator_trainer.this_process import gpus as gpus_here


@dataclasses.dataclass(frozen=True)
class Shape:
    """The number of tasks of each kind; `workers` counts the chief. `sync_ps`: the trainer's flag."""

    workers: int = 2  # the smallest cluster in which something is distributed
    ps: int = 0
    evaluator: bool = True
    sync_ps: bool = False

    @property
    def asynchronous(self) -> bool:
        return self.ps > 0 and not self.sync_ps

    @property
    def size(self) -> int:
        return tf_config.number_of_tasks(self.workers, self.ps, self.evaluator)


@dataclasses.dataclass(frozen=True)
class TaskCommand:
    """How one task is started. `env` is its whole environment, but for its error file."""

    name: str  # 'worker:1'
    argv: tuple[str, ...]
    env: Mapping[str, str]
    trains: bool = True  # chief or worker: the run is over when all of these are
    cores: tuple[int, ...] = ()  # pinned to these; empty: not pinned
    alone: bool = False  # can be restarted while the others go on
    serves_for_ever: bool = False  # does not end by itself, so it is stopped when all others have ended
    address: str = ''


class CannotStart(OSError):
    """A task cannot be started, or its log cannot be written."""


class StartedTask(Protocol):
    """A task that was started.

    Attributes:
      life: counts its starts within the gang, from 1.
    """

    command: TaskCommand
    life: int

    @property
    def name(self) -> str: ...

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None:
        """Returns its exit code, -N if signal N ended it, or None while it runs. Never waits."""

    def send(self, signum: signal.Signals) -> None:
        """Sends a signal. Never waits."""

    def end(self, code: int, secs: float) -> causes.TaskEnd:
        """Closes everything, once it has ended with `code`, and says how it ended. `secs`: since the gang's start."""

    def kill(self) -> None:
        """Kills what is left of it, at once."""

    def close(self) -> None:
        """Kills what is left of it and closes everything."""


class Launcher(Protocol):
    """Starts the tasks of one gang.

    Attributes:
      look_secs: so often tasks have to be looked at, because their ends wake nobody; infinity where they do.
    """

    @property
    def look_secs(self) -> float: ...

    def start(self, command: TaskCommand, number: int, life: int, selector: selectors.BaseSelector) -> StartedTask:
        """Starts a task within a bounded time.

        Args:
          number: of the task within the gang, for the colour of its name.
          selector: may be given descriptors, with an object whose `read(fd)` is then called.

        Raises:
          CannotStart: nothing of it is left.
        """


def core_shares(cores: Iterable[int], tasks: int) -> list[tuple[int, ...]]:
    """Equal, disjoint shares of `cores`, one for each task; all empty if there are too few.

    What does not divide evenly goes to nobody, so that no task is faster than another.
    """
    cores = sorted(cores)
    each = len(cores) // tasks
    return [tuple(cores[i * each : (i + 1) * each]) for i in range(tasks)]


def environment(
    environ: Mapping[str, str], generation: str, started: float, isolated: bool, workers: int
) -> dict[str, str]:
    """The environment that all tasks of one gang inherit.

    Args:
      environ: ours. If it says when the run was started, we are part of a longer one.
      generation: of the gang.
      started: when our first gang was, in seconds since the epoch.
      isolated: the gang is alone in its network namespace.
      workers: of our first gang.
    """
    inherited = {name: v for name, v in environ.items() if name not in protocol.VARIABLES}
    inherited[protocol.GENERATION] = generation
    inherited[report_page.SWITCH] = 'off'  # the page is the supervisor's
    inherited[protocol.WORKERS] = str(workers)
    inherited[protocol.STARTED] = environ.get(protocol.STARTED) or f'{started:.3f}'
    if isolated:
        inherited[protocol.ISOLATED] = '1'
    return inherited


class Gpus(NamedTuple):
    """`there`: GPUs of this machine, at least one. `each`: of a task; None: as many as there are for each."""

    there: int
    each: int | None


@dataclasses.dataclass(frozen=True)
class Program:
    """What every task of a gang runs.

    Attributes:
      command: without flags.
      flags: the user's. They come after ours, so that they win.
      is_trainer: whether it knows the flags of the trainer.
    """

    command: Sequence[str]
    flags: Sequence[str] = ()
    is_trainer: bool = True


def commands(
    shape: Shape,
    addresses: Sequence[str],
    program: Program,
    environ: Mapping[str, str],
    cores: Iterable[int],
    affinity: bool,
    gpus: Gpus | None = None,
) -> list[TaskCommand]:
    """One TaskCommand for each task, in task order.

    Args:
      shape: what to build.
      addresses: 'host:port' of each task, in task order.
      environ: what the tasks inherit, except for TF_CONFIG.
      cores: those this machine lets us use.
      affinity: whether each training task is pinned to its share of `cores`. Parameter servers and the evaluator are
        never pinned.
      gpus: are dealt to the tasks; None: each task sees what `environ` lets it see.
    """
    cluster = tf_config.make(shape.workers, shape.ps, shape.evaluator, addresses)
    cores, is_trainer = tuple(cores), program.is_trainer
    training = tuple(cluster.training_tasks)
    threads = max(1, len(cores) // len(training))
    shares = dict(zip(training, core_shares(cores if affinity else (), len(training))))
    seen = _gpus_of_tasks(cluster, gpus) if gpus else {}
    ours = (f'--intra_op_threads={threads}',) if is_trainer else ()
    argv = (*program.command, *ours, *program.flags)
    return [
        TaskCommand(
            name=str(task),
            argv=argv,
            env={
                **environ,
                'TF_CONFIG': (tf_config.render if is_trainer else tf_config.for_program)(cluster, task),
                'PYTHONUNBUFFERED': '1',  # a line is seen when it is printed
                **seen.get(task, {}),
            },
            trains=task in shares,
            cores=shares.get(task, ()),
            alone=causes.restarts_alone(str(task), shape.asynchronous),
            serves_for_ever=not is_trainer and task.role == 'ps',  # the trainer's end when the workers have left
            address=cluster.address(task),
        )
        for task in cluster.tasks
    ]


def _gpus_of_tasks(cluster: tf_config.Cluster, gpus: Gpus) -> dict[tf_config.Task, dict[str, str]]:
    """What the environment of each task says of its GPUs. Parameter servers have none: they compute on the CPU."""
    training, others = list(cluster.training_tasks), list(cluster.tasks_of('evaluator'))
    dealt, are_shared = gpus_here.shares(len(training), len(others), gpus.each, gpus.there)
    env = {task: {gpus_here.VISIBLE: gpus_here.NONE_VISIBLE} for task in cluster.tasks}
    env.update({task: {gpus_here.VISIBLE: names} for task, names in zip([*training, *others], dealt)})
    if are_shared:
        for task in training:
            env[task][gpus_here.SHARED] = '1'
    return env


def flag_check(gang: Sequence[TaskCommand], quick: bool) -> TaskCommand:
    """The command that lets the trainer judge its flags, as the first training task would.

    `quick`: without what takes the seconds of TensorFlow; the tasks find that out themselves.
    """
    first = next(command for command in gang if command.trains)
    env = {**first.env, protocol.QUICK_CHECK: '1'} if quick else first.env
    return dataclasses.replace(first, argv=(*first.argv, '--dry_run'), env=env, cores=())
