"""What the supervisor reads of the trainer's flags. Only the trainer judges them, together with its job."""

import os
from collections.abc import Sequence
from typing import NamedTuple

from absl import flags as absl_flags

from estimator_trainer import flags
from estimator_trainer.config import TrainerConfig
from estimator_trainer.errors import UsageError
from estimator_trainer.supervisor.usage import flagfile_error


class TrainerFlags(NamedTuple):
    model_dir: str | None = None  # None: none is given, or it is not a folder of this machine
    batch_size: int = TrainerConfig.batch_size  # of one replica
    grace_secs: int = TrainerConfig.grace_secs
    step_timeout_secs: int = TrainerConfig.step_timeout_secs
    just_asks: bool = False  # --help or --dry_run


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
    model_dir = values.model_dir if '://' not in values.model_dir else ''
    return TrainerFlags(
        os.path.expanduser(model_dir) or None,
        values.batch_size,
        values.grace_secs,
        values.step_timeout_secs,
        values.dry_run,
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
