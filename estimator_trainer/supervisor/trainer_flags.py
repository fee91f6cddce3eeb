"""What the supervisor reads of the trainer's flags. Only the trainer judges them, together with its job."""

import dataclasses
import os
from collections.abc import Sequence

from estimator_trainer.config import flag_words, flags, urls
from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.errors import UsageError

NOTHING = TrainerConfig(report='off')
_DATA = ('train_files', 'eval_files', 'data_dir')


@dataclasses.dataclass(frozen=True)
class TrainerFlags:
    """The flags, and whether they only ask something: --help or --dry_run."""

    config: TrainerConfig = NOTHING
    just_asks: bool = False

    @property
    def url(self) -> str | None:
        """That --model_dir names in place of a folder."""
        return self.config.model_dir if urls.is_url(self.config.model_dir) else None

    @property
    def model_dir(self) -> str | None:
        """None: none is given, or it is not a folder of this machine."""
        return None if self.url else os.path.expanduser(self.config.model_dir) or None

    @property
    def data_in_store(self) -> str:
        """The flag that names data in a store; '' if none does."""
        return next((name for name in _DATA if urls.is_url(getattr(self.config, name))), '')


def read(given: Sequence[str]) -> TrainerFlags:
    """Reads what the supervisor needs. If a flag is wrong, the defaults: the trainer will say what is wrong with it.

    Raises:
      UsageError: a flagfile cannot be read.
    """
    words = [word.text for word in flag_words.words(given)]
    if flags.wants_help(words):
        return TrainerFlags(just_asks=True)
    try:
        config = flags.parse_known(TrainerConfig, ['trainer', *given])
    except UsageError:
        return TrainerFlags()
    return TrainerFlags(config, config.dry_run)
