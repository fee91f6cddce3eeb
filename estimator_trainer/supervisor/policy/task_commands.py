"""What to start: the shape of a cluster becomes one command for each task. Pure."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import tf_config
from estimator_trainer.monitoring import report_page
from estimator_trainer.run_dir import protocol
from estimator_trainer.supervisor.policy import causes


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
    """What all tasks of one gang inherit.

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


def commands(
    shape: Shape,
    addresses: Sequence[str],
    trainer: Sequence[str],
    trainer_flags: Sequence[str],
    environ: Mapping[str, str],
    cores: Iterable[int],
    affinity: bool,
    is_program: bool = False,
) -> list[TaskCommand]:
    """One TaskCommand for each task, in task order.

    Args:
      shape: what to build.
      addresses: 'host:port' of each task, in task order.
      trainer: the trainer's command, without flags; or that of a program in its place.
      trainer_flags: the user's; they come after ours, so that they win.
      environ: what the tasks inherit, except for TF_CONFIG.
      cores: those this machine lets us use.
      affinity: pin each training task to its share of `cores`. Parameter servers and the
        evaluator are never pinned.
      is_program: it knows no flags of the trainer.
    """
    cluster = tf_config.make(shape.workers, shape.ps, shape.evaluator, addresses)
    cores = tuple(cores)
    training = tuple(cluster.training_tasks)
    threads = max(1, len(cores) // len(training))
    shares = dict(zip(training, core_shares(cores if affinity else (), len(training))))
    ours = () if is_program else (f'--intra_op_threads={threads}',)
    argv = (*trainer, *ours, *trainer_flags)
    return [
        TaskCommand(
            name=str(task),
            argv=argv,
            env={
                **environ,
                'TF_CONFIG': tf_config.render(_as_a_program_sees_it(cluster, task) if is_program else cluster, task),
                'PYTHONUNBUFFERED': '1',  # a line is seen when it is printed
            },
            trains=task in shares,
            cores=shares.get(task, ()),
            alone=causes.restarts_alone(str(task), shape.asynchronous),
            serves_for_ever=is_program and task.role == 'ps',  # those of the trainer end when the workers have left
            address=cluster.address(task),
        )
        for task in cluster.tasks
    ]


def _as_a_program_sees_it(cluster: tf_config.Cluster, task: tf_config.Task) -> tf_config.Cluster:
    """With parameter servers an evaluator is no part of the cluster, as TensorFlow's RunConfig describes it: a session
    whose program has a session_config of its own has no device filters, and waits for every task that is named."""
    return dataclasses.replace(cluster, evaluator=()) if cluster.ps and task.role != 'evaluator' else cluster


def flag_check(gang: Sequence[TaskCommand], quick: bool) -> TaskCommand:
    """The command that lets the trainer judge its flags, as the first training task would.

    `quick`: without what takes the seconds of TensorFlow; the tasks find that out themselves.
    """
    first = next(command for command in gang if command.trains)
    env = {**first.env, protocol.QUICK_CHECK: '1'} if quick else first.env
    return dataclasses.replace(first, argv=(*first.argv, '--dry_run'), env=env, cores=())
