"""A command line in two parts: the flags of a command such as `cluster`, then `--`, then those of the trainer."""

import shlex
from collections.abc import Sequence
from typing import TypeVar

from estimator_trainer.config import declaration, flags
from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.errors import UsageError

Config = TypeVar('Config')


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
