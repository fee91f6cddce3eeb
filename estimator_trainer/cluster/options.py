"""The command line of the supervisor: argv -> Options, or a UsageError that names the cure."""

import dataclasses
import os
from collections.abc import Sequence

from absl import flags

from estimator_trainer.cluster.plan import Shape
from estimator_trainer.cluster.supervisor import Limits

USAGE = """\
usage: run_local_cluster.sh [flags] -- [trainer flags]

Runs a cluster of `python -m estimator_trainer` processes on this machine, shows their output
with each line's task before it, and ends with 0 or the exit code of the first task that failed.

  run_local_cluster.sh --workers=2 -- --job=mnist --model_dir=/tmp/mnist
"""


class UsageError(ValueError):
    """The command line is wrong; the message is one line: flag, value, cure."""


@dataclasses.dataclass(frozen=True)
class Options:
    shape: Shape
    cpu_affinity: bool
    limits: Limits
    log_dir: str | None  # the parent of attempt-N; None: a temporary folder
    trainer_flags: tuple[str, ...]


def _flags() -> flags.FlagValues:
    shape, limits, values = Shape(), Limits(), flags.FlagValues()
    here = {'flag_values': values}
    flags.DEFINE_integer(
        'workers', shape.workers, 'Tasks that train, the chief among them.', **here
    )
    flags.DEFINE_integer('ps', shape.ps, 'Parameter servers.', **here)
    flags.DEFINE_boolean('evaluator', shape.evaluator, 'Start an evaluator.', **here)
    flags.DEFINE_boolean(
        'cpu_affinity',
        True,
        'Give each training task its own, equal share of the cores, if there are enough.',
        **here,
    )
    flags.DEFINE_float(
        'grace_secs', limits.grace_secs, 'Seconds from SIGTERM to SIGKILL for a task.', **here
    )
    flags.DEFINE_float(
        'drain_secs',
        limits.drain_secs,
        'Seconds for parameter servers and evaluator to end, once training is done.',
        **here,
    )
    flags.DEFINE_string(
        'log_dir',
        None,
        'Output goes to <log_dir>/attempt-N/<role>-<index>.{out,err}, N the next free number. '
        "Default: <model_dir>/logs, with the trainer's --model_dir; without, a temporary folder.",
        **here,
    )
    flags.DEFINE_boolean('help', False, 'Show this.', short_name='h', **here)
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
        raise _flagfile_error(error) from None
    except flags.IllegalFlagValueError as error:
        raise _value_error(error, values) from None
    except flags.Error as error:
        raise UsageError(f'{error} (see --help)') from None
    if values.help:
        return None
    if stray:
        raise UsageError(f'stray {" ".join(stray)!r}: trainer flags come after a --')
    _check_ranges(values)
    trainer_flags = tuple(argv[split + 1 :])
    log_dir = values.log_dir or _log_dir_in(_model_dir(trainer_flags))
    return Options(
        shape=Shape(values.workers, values.ps, values.evaluator),
        cpu_affinity=values.cpu_affinity,
        limits=Limits(values.grace_secs, values.drain_secs),
        log_dir=log_dir,
        trainer_flags=trainer_flags,
    )


def _check_ranges(values: flags.FlagValues) -> None:
    for name, least, why in (
        ('workers', 1, 'a cluster needs a worker; give 1 or more'),
        ('ps', 0, 'give 0 or more'),
        ('grace_secs', 0, 'give seconds, 0 or more'),
        ('drain_secs', 0, 'give seconds, 0 or more'),
    ):
        value = values[name].value
        if value is None or not value >= least:  # NaN is not
            raise UsageError(f'--{name}={value}: {why}')


def _model_dir(trainer_flags: Sequence[str]) -> str | None:
    """The last --model_dir among the trainer's flags, in its flagfiles too.

    Raises:
      UsageError: a flagfile cannot be read.
    """
    try:
        expanded = flags.FlagValues().read_flags_from_files(list(trainer_flags))
    except flags.CantOpenFlagFileError as error:
        raise _flagfile_error(error) from None
    except flags.Error as error:
        raise UsageError(f'{error}: give --flagfile=FILE') from None
    except UnicodeDecodeError as error:
        raise UsageError(f'--flagfile: not a text file ({error}); give a file of flags') from None
    model_dir = None
    for flag, following in zip(expanded, [*expanded[1:], None]):
        name, equals, value = flag.partition('=')
        if name in ('--model_dir', '-model_dir'):
            model_dir = value if equals else following
    return model_dir


def _log_dir_in(model_dir: str | None) -> str | None:
    """Where logs go in a model_dir; None without one, or if it is not a folder of this machine."""
    if not model_dir or '://' in model_dir:
        return None
    return os.path.join(os.path.expanduser(model_dir), 'logs')


def _value_error(error: flags.IllegalFlagValueError, values: flags.FlagValues) -> UsageError:
    given = str(error).removeprefix('flag ').partition(': ')[0]  # '--workers=two'
    name = given.removeprefix('--').partition('=')[0]
    if name not in values:
        return UsageError(f'{error} (see --help)')
    wanted = values[name].parser.syntactic_help or 'true or false'
    return UsageError(f'{given}: give {wanted}')


def _flagfile_error(error: flags.CantOpenFlagFileError) -> UsageError:
    cause = error.__context__  # absl puts the name of the file nowhere else
    return UsageError(
        f'--flagfile={cause.filename}: {cause.strerror}; give the path of a file that can be read'
    )
