"""argv -> TrainerConfig: typed, frozen, validated. Imports no TensorFlow."""

import dataclasses
import difflib
import math
import os

from absl import flags as absl_flags

from estimator_trainer import commands
from estimator_trainer import flags as trainer_flags
from estimator_trainer.errors import UsageError


class HelpRequested(Exception):
    """--help was given. Carries the text."""


@dataclasses.dataclass(frozen=True)
class TrainerConfig:
    """The flags of one run; `estimator_trainer.flags` says what each means and in which unit."""

    job: str
    param: tuple
    loop: str
    stepping: str
    model_dir: str
    allow_config_change: bool
    dataset: str
    data_dir: str
    in_memory_mb: int
    strategy: str
    eval_strategy: str
    num_replicas: int
    intra_op_threads: int
    inter_op_threads: int
    cluster_from: str
    roles: str
    base_port: int | None
    hosts: str
    rank: int | None
    batch_size: int
    max_steps: int | None
    epochs: float | None
    seed: int
    deterministic: bool
    max_secs: int | None
    stop_metric: str
    stop_mode: str
    stop_patience: int
    stop_min_delta: float
    join_timeout_secs: int
    lost_peer_secs: int
    step_timeout_secs: int
    grace_secs: int
    eval_steps: int | None
    eval_throttle_secs: int
    export: tuple
    save_checkpoints_steps: int | None
    save_checkpoints_secs: int | None
    save_checkpoints_epochs: int | None
    keep_checkpoints: int
    save_summary_steps: int
    log_every_steps: int
    progress: str
    dry_run: bool


def parse(argv) -> TrainerConfig:
    """Reads the flags and flagfiles of argv, whose first item is the program's name.

    Raises:
        UsageError: an unknown flag, a value of the wrong kind, a contradiction, a missing flagfile.
        HelpRequested: --help or --helpfull is among them.
    """
    if any(arg.lstrip('-') in ('help', 'helpfull', 'h') for arg in argv[1:] if arg.startswith('-')):
        raise HelpRequested(help_text())
    values = trainer_flags.FLAGS
    values.unparse_flags()
    try:
        rest = values(argv)[1:]
    except absl_flags.UnrecognizedFlagError as error:
        raise UsageError(f'--{error.flagname}: no such flag{_nearest(error.flagname)}. See --help.') from error
    except absl_flags.CantOpenFlagFileError as error:
        raise UsageError(f'--flagfile: {error}') from error
    except UnicodeDecodeError as error:
        raise UsageError(f'--flagfile: is not text in UTF-8 ({error}).') from error
    except absl_flags.Error as error:
        raise UsageError(str(error).replace('flag --', '--')) from error
    if rest:
        raise UsageError(f'{" ".join(rest)}: every argument is a flag; write --name=value.')
    given = values.flag_values_dict()
    fields = {field.name: given[field.name] for field in dataclasses.fields(TrainerConfig)}
    fields['param'] = tuple(fields['param'] or ())
    fields['export'] = tuple(kind for kind in fields['export'] if kind) or ('none',)
    for name in ('model_dir', 'data_dir'):
        fields[name] = os.path.expanduser(fields[name])
    config = TrainerConfig(**fields)
    _check(config)
    # Absolute from here on: the job's code may change the current folder.
    folders = {name: os.path.abspath(fields[name]) for name in ('model_dir', 'data_dir') if fields[name]}
    return dataclasses.replace(config, **folders)


def help_text() -> str:
    """The --help text: every flag, by group, with its default."""
    lines = [commands.help_text(), '', 'train: python -m estimator_trainer --flagfile=FILE --model_dir=FOLDER', '']
    for title, names in trainer_flags.GROUPS.items():
        lines.append(f'{title}:')
        for name in names:
            flag = trainer_flags.FLAGS[name]
            default = '' if flag.default in (None, '', []) else f' [{flag.default_as_str.strip(chr(39))}]'
            lines.append(f'  --{name}: {flag.help}{default}')
        lines.append('')
    return '\n'.join(lines)


def _check(config) -> None:
    if not config.model_dir:
        raise UsageError(
            '--model_dir is missing: name the folder for checkpoints and metrics, such as --model_dir=runs/first'
        )
    if config.max_steps is None and config.epochs is None:
        raise UsageError('Neither --max_steps nor --epochs is set: say when training ends, such as --epochs=5')
    if config.max_steps is not None and config.epochs is not None:
        raise UsageError(f'--max_steps={config.max_steps} and --epochs={config.epochs} are both set: give one of them.')
    both = config.save_checkpoints_steps is not None and config.save_checkpoints_secs is not None
    if both:
        raise UsageError(
            f'--save_checkpoints_steps={config.save_checkpoints_steps} and '
            f'--save_checkpoints_secs={config.save_checkpoints_secs} are both set: give '
            'one of them.'
        )
    if config.loop == 'estimator' and config.save_checkpoints_epochs is not None:
        raise UsageError(
            f'--save_checkpoints_epochs={config.save_checkpoints_epochs}: is for '
            '--loop=keras_fit and custom_loop; use --save_checkpoints_steps.'
        )
    if config.loop != 'custom_loop' and config.stepping != 'dataset':
        raise UsageError(f'--stepping={config.stepping}: is for --loop=custom_loop; the loop is {config.loop}.')
    if config.loop != 'estimator' and config.strategy == 'parameter_server':
        raise UsageError(parameter_server_refused(config.loop))
    lowest = dict(
        batch_size=1,
        num_replicas=1,
        max_steps=1,
        save_checkpoints_steps=1,
        eval_steps=1,
        save_checkpoints_secs=1,
        save_checkpoints_epochs=1,
        log_every_steps=1,
        keep_checkpoints=0,
        in_memory_mb=0,
        save_summary_steps=0,
        eval_throttle_secs=0,
        intra_op_threads=0,
        inter_op_threads=0,
        seed=0,
        max_secs=1,
        stop_patience=1,
        join_timeout_secs=1,
        lost_peer_secs=5,
        step_timeout_secs=0,
        grace_secs=1,
    )
    for name, least in lowest.items():
        value = getattr(config, name)
        if value is not None and value < least:
            raise UsageError(f'--{name}={value}: at least {least} is needed.')
    if config.epochs is not None and not 0 < config.epochs < math.inf:
        raise UsageError(f'--epochs={config.epochs}: a number over 0 is needed.')
    if not 0 <= config.stop_min_delta < math.inf:
        raise UsageError(f'--stop_min_delta={config.stop_min_delta}: a number from 0 is needed.')
    if config.seed >= 2**31:
        raise UsageError(f'--seed={config.seed}: less than 2**31 is needed.')
    unknown = set(config.export) - {'best', 'final', 'none'}
    if unknown or ('none' in config.export and len(config.export) > 1):
        raise UsageError(f'--export={",".join(config.export)}: use best, final, best,final or none.')
    if os.path.exists(config.model_dir) and not os.path.isdir(config.model_dir):
        raise UsageError(f'--model_dir={config.model_dir}: is a file; name a folder.')
    if '://' in config.model_dir:
        raise UsageError(f'--model_dir={config.model_dir}: a folder of this machine, or a mounted one, is needed.')
    if set('*?[\\') & set(config.model_dir):
        raise UsageError(
            f'--model_dir={config.model_dir}: TensorFlow takes a name with *, ?, [ or \\ for a '
            'pattern, and finds no checkpoint there; name another folder.'
        )
    there = os.path.abspath(config.model_dir)
    while not os.path.exists(there):
        there = os.path.dirname(there)
    if not os.path.isdir(there) or not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f'--model_dir={config.model_dir}: {there} cannot be written to; name another folder.')


def parameter_server_refused(loop) -> str:
    return (
        f'--loop={loop} does not train with parameter servers: use --loop=estimator, or a cluster of '
        'workers without ps.'
    )


def _nearest(name) -> str:
    close = difflib.get_close_matches(name, list(trainer_flags.FLAGS), n=1)
    return f' (did you mean --{close[0]}?)' if close else ''
