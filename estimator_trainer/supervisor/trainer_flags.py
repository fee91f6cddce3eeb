"""What the supervisor reads of the trainer's flags. Only the trainer judges them, together with its job."""

import os
from collections.abc import Sequence
from typing import NamedTuple

from absl import flags as absl_flags

from estimator_trainer import flags
from estimator_trainer.config import TrainerConfig
from estimator_trainer.errors import UsageError
from estimator_trainer.storage import urls
from estimator_trainer.supervisor.usage import flagfile_error

_DATA = ('train_files', 'eval_files', 'data_dir')


class TrainerFlags(NamedTuple):
    model_dir: str | None = None  # None: none is given, or it is not a folder of this machine
    batch_size: int = TrainerConfig.batch_size  # of one replica
    grace_secs: int = TrainerConfig.grace_secs
    step_timeout_secs: int = TrainerConfig.step_timeout_secs
    sync_ps: bool = TrainerConfig.sync_ps
    allocator: str = TrainerConfig.allocator
    report: str = 'off'
    progress: str = TrainerConfig.progress
    track: tuple[str, ...] = ()
    profile_tasks: str = TrainerConfig.profile_tasks
    metrics_port: str = ''
    just_asks: bool = False  # --help or --dry_run
    url: str | None = None  # that --model_dir names in place of a folder
    data_in_store: str = ''  # the flag that names data in a store, if one does


def read(given: Sequence[str]) -> TrainerFlags:
    """Reads what the supervisor needs. If a flag is wrong, the defaults: the trainer will say what is wrong with it.

    Raises:
      UsageError: a flagfile cannot be read.
    """
    expanded = _with_flagfiles(given)
    if flags.wants_help(expanded):
        return TrainerFlags(just_asks=True)
    values = flags.define(TrainerConfig)
    try:
        values(['trainer', *expanded], known_only=True)
    except absl_flags.Error:
        return TrainerFlags()
    url = values.model_dir if urls.is_url(values.model_dir) else None
    return TrainerFlags(
        None if url else os.path.expanduser(values.model_dir) or None,
        values.batch_size,
        values.grace_secs,
        values.step_timeout_secs,
        values.sync_ps,
        values.allocator,
        values.report,
        values.progress,
        tuple(values.track),
        values.profile_tasks,
        values.metrics_port,
        values.dry_run,
        url,
        next((name for name in _DATA if urls.is_url(getattr(values, name))), ''),
    )


def _with_flagfiles(given: Sequence[str]) -> list[str]:
    """The flags, with every flagfile replaced by what is in it."""
    try:
        return absl_flags.FlagValues().read_flags_from_files(list(given))
    except absl_flags.CantOpenFlagFileError as error:
        raise flagfile_error(error) from None
    except absl_flags.Error as error:
        raise UsageError(f'{error}: give --flagfile=FILE') from None
    except UnicodeDecodeError as error:
        raise UsageError(f'--flagfile: not a text file ({error}); give a file of flags') from None
