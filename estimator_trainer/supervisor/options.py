"""The command line of the supervisor: argv -> Options, or a UsageError that names the cure."""

import dataclasses
import math
import os
from collections.abc import Sequence

from absl import flags

from estimator_trainer.supervisor import trainer_flags as trainers
from estimator_trainer.supervisor.logs import Bounds
from estimator_trainer.supervisor.plan import Shape
from estimator_trainer.supervisor.restarts import Rules
from estimator_trainer.supervisor.supervisor import Limits
from estimator_trainer.supervisor.usage import UsageError, flagfile_error, value_error

USAGE = """\
usage: run_local_cluster.sh [flags] -- [trainer flags]
       python -m estimator_trainer cluster [flags] -- [trainer flags]

Both are the same. They run a cluster of `python -m estimator_trainer` processes on this machine, show
their output with the name of the task before each line, and restart them from the last checkpoint when
one fails. The exit code is 0, or that of the task that failed first in the last attempt.

  run_local_cluster.sh --workers=2 -- --job=mnist --max_steps=1000 --model_dir=/tmp/mnist
"""


@dataclasses.dataclass(frozen=True)
class Options:
    shape: Shape
    cpu_affinity: bool
    limits: Limits
    rules: Rules  # of restarts
    min_workers: int | None  # None: never go on with fewer
    isolate: str  # auto, on or off
    model_dir: str | None  # None: none, or not of this machine
    log_dir: str | None  # the parent of attempt-N; None: a temporary folder
    log_bounds: Bounds
    batch_size: int  # of one replica
    trainer_flags: tuple[str, ...]


def _flags() -> flags.FlagValues:
    shape, limits, rules, bounds = Shape(), Limits(), Rules(), Bounds()
    values = flags.FlagValues()

    def define(kind, name, default, text, *args, **kwargs):
        kind(name, default, *args, text, flag_values=values, **kwargs)

    whole, number, switch = flags.DEFINE_integer, flags.DEFINE_float, flags.DEFINE_boolean
    define(whole, 'workers', shape.workers, 'Tasks that train, the chief among them.')
    define(whole, 'ps', shape.ps, 'Parameter servers.')
    define(switch, 'evaluator', shape.evaluator, 'Start an evaluator.')
    define(
        switch, 'cpu_affinity', True, 'Give each training task its own, equal share of the cores, if there are enough.'
    )
    define(number, 'grace_secs', limits.grace_secs, 'Seconds from SIGTERM to SIGKILL for a task.')
    define(
        number,
        'drain_secs',
        limits.drain_secs,
        'Seconds for parameter servers and evaluator to end, once training is done.',
    )
    define(
        whole,
        'max_restarts',
        rules.max_restarts,
        'Restarts within --restart_window_secs, after which the run is given up. A new checkpoint '
        'gives them all back. An evaluator, or a worker beside --ps, is restarted alone, and as '
        'often on an account of its own. 0: never.',
    )
    define(number, 'restart_window_secs', rules.window_secs, 'Restarts that are longer ago do not count.')
    define(
        number,
        'backoff_secs',
        rules.backoff_secs,
        'Seconds before the first restart. Doubles with each, up to 60; reset by a new checkpoint.',
    )
    define(
        whole,
        'min_workers',
        None,
        'Go on with fewer workers, but at least so many, when one of them fails twice in a row '
        'without a new checkpoint, or cannot be started. The global batch stays: --batch_size is '
        'raised. Not with --ps. Default: never.',
    )
    define(
        number,
        'stall_timeout',
        limits.stall_timeout,
        'Seconds without a step after which every task is made to print its stacks, is killed and restarted. 0: never.',
    )
    define(
        flags.DEFINE_enum,
        'isolate',
        'auto',
        'Run the cluster in a network namespace of its own, where nobody else reaches its ports. '
        'auto: where this machine allows it.',
        ['auto', 'on', 'off'],
    )
    define(
        flags.DEFINE_string,
        'log_dir',
        None,
        'Output goes to <log_dir>/attempt-N/<role>-<index>.{out,err}, N the next free number. '
        "Default: <model_dir>/logs, with the trainer's --model_dir; without, a temporary folder.",
    )
    define(
        whole,
        'keep_attempts',
        bounds.attempts,
        'Newest folders attempt-N that are kept in --log_dir, and in one of them the logs of the last so many '
        'lives of a task that is restarted alone. 0: all.',
    )
    define(
        whole,
        'max_log_mb',
        bounds.mb,
        'MiB of each stream of a task that are kept, the newest: half in <role>-<index>.err, half in '
        '<role>-<index>.err.1. 0: all.',
    )
    define(switch, 'help', False, 'Show this.', short_name='h')
    return values


def help_text() -> str:
    """What --help shows."""
    _, own = _flags().module_help(__name__).split(':\n', 1)  # without absl's name for the group
    return f'{USAGE}\nflags:\n{own}\n\nFor the trainer flags: python -m estimator_trainer --help'


def parse(argv: Sequence[str]) -> Options | None:
    """The options in `argv`, which has no program name. None: help is wanted.

    Raises:
      UsageError: something in it is wrong.
    """
    split = argv.index('--') if '--' in argv else len(argv)
    values = _flags()
    try:
        _, *stray = values(['run_local_cluster.sh', *argv[:split]])
    except flags.UnrecognizedFlagError as error:
        raise UsageError(f'{error} (trainer flags come after a --)') from None
    except flags.CantOpenFlagFileError as error:
        raise flagfile_error(error) from None
    except flags.IllegalFlagValueError as error:
        raise value_error(error, values) from None
    except flags.Error as error:
        raise UsageError(f'{error} (see --help)') from None
    if values.help:
        return None
    if stray:
        raise UsageError(f'stray {" ".join(stray)!r}: trainer flags come after a --')
    _check_ranges(values)
    _check_min_workers(values)
    trainer_flags = tuple(argv[split + 1 :])
    expanded = trainers.expand(trainer_flags)
    model_dir = trainers.local_model_dir(expanded)
    return Options(
        shape=Shape(values.workers, values.ps, values.evaluator),
        cpu_affinity=values.cpu_affinity,
        limits=Limits(values.grace_secs, values.drain_secs, values.stall_timeout),
        rules=Rules(values.max_restarts, values.restart_window_secs, values.backoff_secs),
        min_workers=values.min_workers,
        isolate=values.isolate,
        model_dir=model_dir,
        log_dir=values.log_dir or (model_dir and os.path.join(model_dir, 'logs')),
        log_bounds=Bounds(values.keep_attempts, values.max_log_mb),
        batch_size=trainers.batch_size(expanded),
        trainer_flags=trainer_flags,
    )


def _check_ranges(values: flags.FlagValues) -> None:
    for name, least, why in (
        ('workers', 1, 'a cluster needs a worker; give 1 or more'),
        ('ps', 0, 'give 0 or more'),
        ('grace_secs', 0, 'give seconds, 0 or more'),
        ('drain_secs', 0, 'give seconds, 0 or more'),
        ('max_restarts', 0, 'give 0 or more'),
        ('restart_window_secs', 1, 'give seconds, 1 or more; --max_restarts=0 never restarts'),
        ('backoff_secs', 0, 'give seconds, 0 or more'),
        ('keep_attempts', 0, 'give 1 or more; 0 keeps all'),
        ('max_log_mb', 0, 'give MiB, 1 or more; 0 keeps all'),
        ('stall_timeout', 0, 'give seconds, 0 or more; 0 never takes a gang for stalled'),
    ):
        value = values[name].value
        if value is None or not least <= value < math.inf:  # NaN is not
            raise UsageError(f'--{name}={value}: {why}')


def _check_min_workers(values: flags.FlagValues) -> None:
    given = values.min_workers
    if given is None:
        return
    if values.ps:
        raise UsageError(
            f'--min_workers={given}: not with --ps={values.ps}, where a worker is restarted alone; '
            'leave one of them out'
        )
    if not 1 <= given <= values.workers:
        raise UsageError(f'--min_workers={given}: give 1 or more, and not more than --workers={values.workers}')
