"""Reads a command line into the dataclass that declares its flags (declaration.py).

    config = parse(Config, ['program', '--batch_size=32'])

absl reads the values. `flag_values.py` decides which of several values of a flag counts, and names the place of a wrong
one. Imports no TensorFlow.
"""

import dataclasses
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from absl import flags as absl_flags

from estimator_trainer.config import flag_values, flag_words
from estimator_trainer.config.declaration import REQUIRED, Flag, declared, groups
from estimator_trainer.errors import UsageError, nearest

Config = TypeVar('Config')
_WIDTH = 110  # of --help, in characters


class _HasFolder(Protocol):
    """A dataclass that declares the flag --model_dir."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    @property
    def model_dir(self) -> str: ...


FolderConfig = TypeVar('FolderConfig', bound=_HasFolder)


def define(config: type) -> absl_flags.FlagValues:
    """absl's flags for a dataclass."""
    values = absl_flags.FlagValues()
    kinds: dict[type, Callable[..., Any]] = {
        bool: absl_flags.DEFINE_bool,
        int: absl_flags.DEFINE_integer,
        float: absl_flags.DEFINE_float,
        str: absl_flags.DEFINE_string,
        tuple: absl_flags.DEFINE_list,
    }
    for one in declared(config):
        if one.repeated:
            absl_flags.DEFINE_multi_string(one.name, list(one.default), one.help, flag_values=values)
        else:
            default = list(one.default) if one.type is tuple else one.default
            kinds[one.type](one.name, default, one.help, flag_values=values)
    return values


_ELSEWHERE_CALLED = {  # what other programs call a flag
    **dict.fromkeys(('train_steps', 'num_train_steps', 'num_steps'), 'max_steps'),
    **dict.fromkeys(('output_dir', 'job_dir', 'export_dir', 'checkpoint_dir'), 'model_dir'),
    **dict.fromkeys(('gpus', 'num_gpus'), 'num_replicas'),
    **dict.fromkeys(('train_data', 'train_path', 'train_dir'), 'train_files'),
    **dict.fromkeys(('eval_data', 'eval_path', 'eval_dir', 'test_files', 'valid_files'), 'eval_files'),
    'train_batch_size': 'batch_size',
}


class UnknownFlag(UsageError):
    """There is no such flag.

    Attributes:
        unknown: the flag as it was given.
        said: the message without a cure.
        has_close: the message offers a flag with a similar name.
    """

    def __init__(self, unknown: flag_values.Unknown, known: Mapping[str, Flag]) -> None:
        off = unknown.name.removeprefix('no').lstrip('_')
        is_off = unknown.name.startswith('no_') and off in known and known[off].type is bool
        called_here = _ELSEWHERE_CALLED.get(unknown.name)
        meant = f' (did you mean --no{off}?)' if is_off else nearest(unknown.name, known, '--{}'.format)
        meant = f' (did you mean --{called_here}?)' if called_here in known else meant
        self.said = f'--{unknown.name}{unknown.word.shown_place}: no such flag'
        super().__init__(f'{self.said}{meant}. See --help.')
        self.unknown = unknown
        self.has_close = bool(meant)


@dataclasses.dataclass(frozen=True)
class ParsedFlags(Generic[Config]):
    """A command line, read.

    Attributes:
        config: the values of the flags.
        words: the words that are neither a flag nor the value of one.
        overrides: the flags that do not count, because another one does.
    """

    config: Config
    words: tuple[flag_words.Word, ...]
    overrides: tuple[flag_values.Override, ...]


def parse(config: type[Config], argv: Sequence[str]) -> Config:
    """Reads the flags and flagfiles of argv, whose first item is the program's name.

    Raises:
        UsageError: an unknown flag, a value of the wrong kind or out of bounds, a missing flagfile, or a
            word that is no flag.
    """
    return parse_with_overrides(config, argv).config


def parse_with_overrides(config: type[Config], argv: Sequence[str]) -> ParsedFlags[Config]:
    """Does what `parse` does, and also returns the flags that do not count."""
    parsed = _parse(config, argv)
    if parsed.words:
        texts = ' '.join(f'{word.text}{word.shown_place}' for word in parsed.words)
        raise UsageError(f'{texts}: every argument is a flag; write --name=value.')
    return parsed


def parse_with_words(config: type[Config], argv: Sequence[str]) -> tuple[Config, list[str]]:
    """Does what `parse` does for a command that also takes words, such as folders, before, between or after its flags.

    Returns:
        The values of the flags, and the words.

    Raises:
        UsageError: as `parse`, but not for words.
    """
    parsed = _parse(config, argv)
    return parsed.config, [word.text for word in parsed.words]


def parse_with_folder(config: type[FolderConfig], argv: Sequence[str]) -> FolderConfig:
    """Does what `parse` does for a command whose --model_dir may also be given as a word.

    Raises:
        UsageError: as `parse`; also if there is more than one folder.
    """
    parsed = _parse(config, argv)
    values = parsed.config
    if not parsed.words:
        return values
    given = [word.text for word in parsed.words]
    if len(given) > 1 or values.model_dir:
        named = ' '.join([*given, *([f'--model_dir={values.model_dir}'] if values.model_dir else [])])
        raise UsageError(f'{named}: name one folder, as a word or as --model_dir=FOLDER; any other argument is a flag.')
    return dataclasses.replace(values, model_dir=given[0])


def parse_known(config: type[Config], argv: Sequence[str]) -> Config:
    """Does what `parse` does, but ignores words and unknown flags."""
    return _parse(config, argv, known_only=True).config


def _field_names(config: type) -> dict[str, str]:
    """The field of each flag: `from_` is the field of --from."""
    return {field.name.rstrip('_'): field.name for field in dataclasses.fields(config)}


def _parse(config: type[Config], argv: Sequence[str], known_only: bool = False) -> ParsedFlags[Config]:
    known = {one.name: one for one in declared(config)}
    split = flag_values.split(known, flag_words.words(argv[1:]))
    if split.unknown and not known_only:
        raise UnknownFlag(split.unknown[0], known)
    values, overrides = flag_values.settle(split.given, define(config))
    names = _field_names(config)
    given = {names[name]: value for name, value in values.items()}
    return ParsedFlags(config(**given), tuple(split.words), tuple(overrides))


def wants_help(argv: Sequence[str]) -> bool:
    """Whether --help is among the arguments."""
    return any(arg.startswith('-') and arg.lstrip('-') in ('help', 'helpfull', 'h') for arg in argv)


def help_text(config: type) -> str:
    """The part of --help that lists the flags by group, each with its default and its range."""
    lines: list[str] = []
    for title, members in groups(config).items():
        lines.append(f'{title}:')
        for one in members:
            default = one.shown_default if one.unset == REQUIRED else f'default: {one.shown_default or "none"}'
            facts = '; '.join(filter(None, (default, one.shown_range)))
            text = f'--{one.name}: {one.help} [{facts}]'
            lines += textwrap.wrap(text, _WIDTH, initial_indent='  ', subsequent_indent=' ' * 6, break_on_hyphens=False)
        lines.append('')
    return '\n'.join(lines)
