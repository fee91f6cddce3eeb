"""The command line of the supervisor: argv -> Options, or a UsageError that names the cure."""

import dataclasses
import functools
import os
from collections.abc import Sequence

from estimator_trainer.config import flags, two_parts
from estimator_trainer.config.declaration import flag
from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir.log_folders import LogBounds
from estimator_trainer.supervisor.policy.restarts import SAVE_MARGIN_SECS, Limits, Rules, stall_bound
from estimator_trainer.supervisor.policy.task_commands import Shape

USAGE = """\
usage: run_local_cluster.sh [flags] -- [trainer flags]
       python -m estimator_trainer cluster [flags] -- [trainer flags]
       python -m estimator_trainer cluster --program=FILE [flags] -- [flags of the program]

The first two are the same. They run a cluster of `python -m estimator_trainer` processes on this machine, show
their output with the name of the task before each line, and restart them from the last checkpoint when
one fails. With --program they run `python -m estimator_trainer.compat run FILE` in place of the trainer. The exit code
is 0, or that of the task that failed first in the last attempt.

  run_local_cluster.sh --workers=2 -- --job=mnist --max_steps=1000 --model_dir=/tmp/mnist
"""


# A program alone has the system's allocator, and asks for no profiles.
PROGRAM = two_parts.TrainerFlags(TrainerConfig(report='off', allocator='system', profile_tasks='none'))
_tasks = functools.partial(flag, group='Tasks')
_restarts = functools.partial(flag, group='Restarts and bounds')
_machine = functools.partial(flag, group='This machine')


@dataclasses.dataclass(frozen=True)
class ClusterFlags:
    """The flags of run_local_cluster.sh. Their defaults are those of the parts that use them."""

    workers: int = _tasks(
        Shape.workers,
        'Tasks that train. The chief is one of them.',
        least=1,
        wanted='a cluster needs a worker; give 1 or more',
        why='the smallest cluster',
    )
    program: str | None = _tasks(
        None,
        'A program of your own that uses tf.estimator and reads TF_CONFIG. It runs under `compat run` in place of the '
        'trainer, and gets what comes after the --.',
        unset='the trainer',
    )
    tf1: bool = _tasks(
        False,
        'With --program: a program of TensorFlow 1, which runs under `compat run --tf1`.',
        why='most programs are of TensorFlow 2',
    )
    tf1_packages: str = _tasks(
        '', 'With --tf1: installed packages that are of TensorFlow 1 as well, with commas between them.', unset='none'
    )
    horovod: bool = _tasks(
        False,
        'With --program: the workers are the ranks of `horovod.tensorflow`, which need not be installed. There is no '
        'evaluator.',
        why='a program that does not import Horovod reads TF_CONFIG',
    )
    ps: int = _tasks(
        Shape.ps, 'Parameter servers.', least=0, wanted='give 0 or more', why='training is synchronous without them'
    )
    evaluator: bool = _tasks(
        Shape.evaluator,
        'Start an evaluator, which evaluates checkpoints while training goes on. With --noevaluator the chief '
        'evaluates at the end.',
        why='an evaluation by the chief holds up training',
    )
    min_workers: int | None = _tasks(
        None,
        'Go on with fewer workers, but at least so many, when one of them cannot be started or fails twice in a row '
        'without a new checkpoint. The global batch stays the same, because --batch_size is raised; so does a learning '
        'rate that scale_rate_with_replicas has scaled. Not with --ps.',
        unset='never go on with fewer',
        least=1,
        wanted='give 1 or more, and not more than --workers',
    )

    max_restarts: int = _restarts(
        Rules.max_restarts,
        'Restarts within --restart_window_secs after which the run is given up; each new checkpoint resets the count. '
        'An evaluator, or a worker beside parameter servers, is restarted alone and has a count of its own. 0: never.',
        least=0,
        wanted='give 0 or more',
        why='a failure that comes back four times without a new checkpoint is probably permanent',
    )
    restart_window_secs: float = _restarts(
        Rules.window_secs,
        'Restarts that happened longer ago do not count, but for those after a gang without a step or without a peer.',
        unit='s',
        least=1,
        wanted='give seconds, 1 or more; --max_restarts=0 never restarts',
        why='a machine that fails this rarely is worth going on with',
    )
    backoff_secs: float = _restarts(
        Rules.backoff_secs,
        'Pause before the first restart. It doubles with each restart, up to 60 s, with some jitter; a new checkpoint '
        'resets it.',
        unit='s',
        least=0,
        wanted='give seconds, 0 or more',
        why='most failures are over at once',
    )
    stall_timeout: float | None = _restarts(
        None,
        'Time without a step after which every task prints its stacks and the gang is restarted. 0: never.',
        unset=f"the trainer's --step_timeout_secs, but at least {Limits.stall_timeout} s",
        unit='s',
        least=0,
        wanted='give seconds, 0 or more; 0 never takes a gang for stalled',
        why='the supervisor waits for a step as long as the trainer does',
    )
    grace_secs: float | None = _restarts(
        None,
        'Time from SIGTERM to SIGKILL for a task.',
        unset=f"{SAVE_MARGIN_SECS} s more than the trainer's --grace_secs, but at least {Limits.grace_secs} s",
        unit='s',
        least=0,
        wanted='give seconds, 0 or more',
        why='the trainer saves a checkpoint in this time',
    )
    drain_secs: float = _restarts(
        Limits.drain_secs,
        'Time for parameter servers and the evaluator to end when training is done.',
        unit='s',
        least=0,
        wanted='give seconds, 0 or more',
        why='a last evaluation and its exports may take minutes',
    )

    cpu_affinity: bool = _machine(
        True,
        'Give each training task an equal share of the cores for itself, if there are enough.',
        why='tasks that share cores slow each other down',
    )
    isolate: str = _machine(
        'auto',
        'Run the cluster in a network namespace of its own, where nobody else reaches its ports. auto: if this machine '
        'allows it.',
        choices=('auto', 'on', 'off'),
        why="TensorFlow's ports have no authentication",
    )
    log_dir: str | None = _machine(
        None,
        'Folder of the output of all tasks: attempt-N/<role>-<index>.out and .err, where N is the next free number.',
        unset="<model_dir>/logs; a temporary folder if the trainer's flags name no --model_dir; for --program=my.py "
        'my-cluster in the current folder, with report.json and status.json',
    )
    keep_attempts: int = _machine(
        LogBounds.attempts,
        'Newest folders attempt-N that are kept in --log_dir, and in each of them the logs of the last so many lives '
        'of a task that is restarted alone. 0: all.',
        least=0,
        wanted='give 1 or more; 0 keeps all',
        why='enough to see how failures began',
    )
    max_log_mb: int = _machine(
        LogBounds.mb,
        'What is kept of each stream of a task, the newest part: half of it in <role>-<index>.err, half in '
        '<role>-<index>.err.1. 0: all.',
        unit='MiB',
        least=0,
        wanted='give MiB, 1 or more; 0 keeps all',
        why='days of what an ordinary job prints',
    )


def help_text() -> str:
    """What --help shows."""
    return f'{USAGE}\n{flags.help_text(ClusterFlags)}\nFor the trainer flags: python -m estimator_trainer --help'


@dataclasses.dataclass(frozen=True)
class Options:
    """What the command line of a cluster says.

    Attributes:
      own: the flags before the --.
      words: what comes after it, for the trainer or the program.
      trainer: the words as flags of the trainer. Of a program nothing is known: no model_dir, no steps, no checkpoints.
      limits: how long things may take.
      model_dir: a folder of this machine, with --program that of our own files; None: there is none.
      log_dir: the parent of attempt-N; None: a temporary folder.
    """

    own: ClusterFlags
    words: tuple[str, ...]
    trainer: two_parts.TrainerFlags
    limits: Limits
    model_dir: str | None
    log_dir: str | None

    @property
    def shape(self) -> Shape:
        evaluator = self.own.evaluator and not self.own.horovod
        return Shape(self.own.workers, self.own.ps, evaluator, self.trainer.config.sync_ps)

    @property
    def switches(self) -> tuple[str, ...]:
        """The switches that `compat run` gets."""
        packages = (f'--tf1-packages={self.own.tf1_packages}',) if self.own.tf1_packages else ()
        return (*(f'--{name}' for name in ('tf1', 'horovod') if getattr(self.own, name)), *packages)

    @property
    def rules(self) -> Rules:
        return Rules(self.own.max_restarts, self.own.restart_window_secs, self.own.backoff_secs)

    @property
    def log_bounds(self) -> LogBounds:
        return LogBounds(self.own.keep_attempts, self.own.max_log_mb)


def _parts(argv: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """What stands before the --, and what comes after it."""
    split = argv.index('--') if '--' in argv else len(argv)
    return argv[:split], argv[split + 1 :]


def wants_help(argv: Sequence[str]) -> bool:
    """Whether `argv` asks for the help of this command."""
    return flags.wants_help(_parts(argv)[0])


def parse(argv: Sequence[str]) -> Options:
    """The options in `argv`, which has no program name and does not want help.

    Raises:
      UsageError: something in it is wrong.
    """
    before, after = _parts(argv)
    own, words = two_parts.parse(ClusterFlags, 'run_local_cluster.sh', before), tuple(after)
    _check_min_workers(own)
    _check_switches(own)
    if own.program is not None:
        _check_program(own, own.program)
        grace_secs = Limits.grace_secs if own.grace_secs is None else own.grace_secs
        folder = own.log_dir or f'{os.path.splitext(os.path.basename(own.program))[0]}-cluster'
        return Options(own, words, PROGRAM, Limits(grace_secs, own.drain_secs, 0), folder, folder)
    trainer = two_parts.read_trainer_flags(words)
    log_dir = own.log_dir or (trainer.model_dir and os.path.join(trainer.model_dir, 'logs'))
    return Options(own, words, trainer, _limits(own, trainer.config), trainer.model_dir, log_dir)


def _check_switches(own: ClusterFlags) -> None:
    for name, given in (('tf1', own.tf1), ('horovod', own.horovod), ('tf1_packages', own.tf1_packages)):
        if given and own.program is None:
            raise UsageError(f'--{name}: only for a program of your own; give --program=FILE as well')
    if own.tf1_packages and not own.tf1:
        raise UsageError(f'--tf1_packages={own.tf1_packages}: only for a program of TensorFlow 1; give --tf1 as well')
    if own.horovod and own.ps:
        raise UsageError(f'--horovod: not with --ps={own.ps}, because every task is a rank; leave one of them out')


def _check_program(own: ClusterFlags, program: str) -> None:
    if not os.path.isfile(program):
        raise UsageError(f'--program={program}: no such file in {os.getcwd()}; name the file of a Python program')
    for which, given in (('min_workers', own.min_workers), ('stall_timeout', own.stall_timeout)):
        if given:
            raise UsageError(
                f'--{which}={given:g}: needs the trainer, which tells its steps; leave it out with --program'
            )


def _limits(own: ClusterFlags, config: TrainerConfig) -> Limits:
    """A task gets at least the time that its own flags allow it."""
    grace, stall = own.grace_secs, own.stall_timeout
    if grace is None:
        grace = max(Limits.grace_secs, config.grace_secs + SAVE_MARGIN_SECS)
    if stall is None:
        stall = stall_bound(config.step_timeout_secs)
    return Limits(grace, own.drain_secs, stall)


def _check_min_workers(own: ClusterFlags) -> None:
    given = own.min_workers
    if given is None:
        return
    if own.ps:
        raise UsageError(
            f'--min_workers={given}: not with --ps={own.ps}, where a worker is restarted alone; leave one of them out'
        )
    if given > own.workers:
        raise UsageError(f'--min_workers={given}: give 1 or more, and not more than --workers={own.workers}')
