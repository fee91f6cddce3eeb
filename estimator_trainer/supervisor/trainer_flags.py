"""What the supervisor has to know of the trainer's flags. The trainer alone judges them."""

import os
from collections.abc import Sequence

from absl import flags

from estimator_trainer.supervisor.usage import UsageError, flagfile_error

DEFAULT_BATCH_SIZE = 64  # the trainer's


def expand(trainer_flags: Sequence[str]) -> list[str]:
    """The flags with every flagfile replaced by what is in it.

    Raises:
      UsageError: a flagfile cannot be read.
    """
    try:
        return flags.FlagValues().read_flags_from_files(list(trainer_flags))
    except flags.CantOpenFlagFileError as error:
        raise flagfile_error(error) from None
    except flags.Error as error:
        raise UsageError(f'{error}: give --flagfile=FILE') from None
    except UnicodeDecodeError as error:
        raise UsageError(f'--flagfile: not a text file ({error}); give a file of flags') from None


def last(expanded: Sequence[str], name: str) -> str | None:
    """The value of the last --name among expanded flags: the one that counts."""
    found = None
    for flag, following in zip(expanded, [*expanded[1:], None]):
        given, equals, value = flag.partition('=')
        if given in (f'--{name}', f'-{name}'):
            found = value if equals else following
    return found


def local_model_dir(expanded: Sequence[str]) -> str | None:
    """The model_dir; None without one, or if it is not a folder of this machine."""
    model_dir = last(expanded, 'model_dir')
    if not model_dir or '://' in model_dir:
        return None
    return os.path.expanduser(model_dir)


def batch_size(expanded: Sequence[str]) -> int:
    """The batch size of one replica. What is no number is left to the trainer's check."""
    try:
        return int(last(expanded, 'batch_size') or DEFAULT_BATCH_SIZE)
    except ValueError:
        return DEFAULT_BATCH_SIZE
