"""A command line in two parts: the flags of a command such as `cluster`, then `--`, then those of the trainer."""

import dataclasses
import os
import shlex
from collections.abc import Sequence
from typing import TypeVar

from estimator_trainer.config import declaration, flag_words, flags, urls
from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.errors import UsageError

Config = TypeVar('Config')
_NO_FLAGS = TrainerConfig(report='off')
_DATA = ('train_files', 'eval_files', 'data_dir')


def parse(config: type[Config], program: str, own: Sequence[str]) -> Config:
    """Reads the first part.

    Args:
        config: the dataclass of the command's flags.
        program: the words before the flags, for a message that shows the whole command line.
        own: the arguments before `--`.

    Raises:
        UsageError: as `flags.parse`; also for a flag of the trainer.
    """
    try:
        values, words = flags.parse_with_words(config, [program, *own])
    except flags.UnknownFlag as error:
        name = error.unknown.name
        if name not in _names(TrainerConfig):
            raise UsageError(f'{error} Flags of the trainer come after a --.') from None
        place = error.unknown.word.shown_place
        raise UsageError(
            f'--{name}{place}: is a flag of the trainer; these come after a --: {program} {_mended(config, own)}'
        ) from None
    if words:
        raise UsageError(
            f'{" ".join(words)!r}: every argument is a flag; write --name=value. Flags of the trainer come after a --.'
        )
    return values


def _names(config: type) -> set[str]:
    declared = declaration.declared(config)
    return {one.name for one in declared} | {f'no{one.name}' for one in declared if one.type is bool}


def _mended(config: type, own: Sequence[str]) -> str:
    """The arguments with the flags that the command does not know after `--`."""
    with_value = {one.name for one in declaration.declared(config) if one.type is not bool}
    of_command: list[str] = []
    of_trainer: list[str] = []
    part, rest = of_trainer, list(own)
    while rest:
        word = rest.pop(0)
        name, equals, _ = word.lstrip('-').partition('=')
        if word.startswith('-'):
            part = of_command if name in _names(config) else of_trainer
        part.append(word)
        if part is of_command and name in with_value and not equals and rest:
            part.append(rest.pop(0))
    return shlex.join([*of_command, '--', *of_trainer])


@dataclasses.dataclass(frozen=True)
class TrainerFlags:
    """What a supervisor reads of the trainer's flags, and whether they only ask something: --help or --dry_run."""

    config: TrainerConfig = _NO_FLAGS
    just_asks: bool = False

    @property
    def url(self) -> str | None:
        """The URL that --model_dir names instead of a folder."""
        return self.config.model_dir if urls.is_url(self.config.model_dir) else None

    @property
    def model_dir(self) -> str | None:
        """None: none is given, or it is not a folder of this machine."""
        return None if self.url else os.path.expanduser(self.config.model_dir) or None

    @property
    def data_in_store(self) -> str:
        """The flag that names data in a store; '' if none does."""
        return next((name for name in _DATA if urls.is_url(getattr(self.config, name))), '')


def read_trainer_flags(given: Sequence[str]) -> TrainerFlags:
    """Reads what comes after `--`. If a flag is wrong, the defaults: the trainer will say what is wrong with it.

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
