"""One declaration for each flag: a field of a frozen dataclass.

    @dataclasses.dataclass(frozen=True)
    class Config:
        batch_size: int = flag(64, 'Examples of a replica in each step.', group='Training', least=1)

    config = parse(Config, ['program', '--batch_size=32'])

The field gives the flag its name and type. absl's flag, the checks of ranges, --help and docs/reference.md all come
from it. absl reads the values; `flag_values.py` says which of several counts, and names the place of a wrong one.
Imports no TensorFlow.
"""

import dataclasses
import math
import textwrap
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from absl import flags as absl_flags

from estimator_trainer.config import flag_values, flag_words
from estimator_trainer.errors import UsageError, nearest

Config = TypeVar('Config')
REQUIRED = 'required'
_WIDTH = 110  # of --help


@dataclasses.dataclass(frozen=True)
class Flag:
    """What is known of a flag.

    Attributes:
        default: the value without the flag; None where `unset` says what holds then.
        help: what it does.
        group: the title under which --help and the reference show it.
        why: the reason for the default.
        unit: of the value.
        unset: what holds without the flag, where the default does not say it; REQUIRED: the flag has to be given.
        least, above, most: bounds of a number: at least, more than, at most.
        wanted: says the bounds in the error message, in place of 'at least LEAST is needed.'
        choices: all values that there are.
        repeated: the flag may be given several times, and each time adds a value.
        excludes: names of the flags that cannot have a value beside this one; the one that counts takes theirs back.
            One flag of a pair names the other.
        last_counts: a flagfile counts as much as the command line, on which engines and supervisors put a value
            before the user's flags.
    """

    default: Any
    help: str
    group: str
    why: str = ''
    unit: str = ''
    unset: str = ''
    least: float | None = None
    above: float | None = None
    most: float | None = None
    wanted: str = ''
    choices: tuple[str, ...] = ()
    repeated: bool = False
    excludes: tuple[str, ...] = ()
    last_counts: bool = False
    name: str = ''
    type: type = str

    @property
    def shown_default(self) -> str:
        """The default as one would write it, or what holds without the flag."""
        if self.unset:
            return self.unset
        if isinstance(self.default, bool):
            return str(self.default).lower()
        if isinstance(self.default, tuple):
            return ','.join(self.default)
        return '' if self.default is None else f'{self.default} {self.unit}'.strip()

    @property
    def shown_range(self) -> str:
        if self.choices:
            return f'one of {", ".join(self.choices)}'
        bounds = (('over', self.above), ('at least', self.least), ('at most', self.most))
        return ', '.join(f'{word} {bound} {self.unit}'.strip() for word, bound in bounds if bound is not None)

    def admits(self, value) -> bool:
        """Whether a value is within the bounds."""
        if value is None or not isinstance(value, int | float):
            return True
        above = -math.inf if self.above is None else self.above
        least = -math.inf if self.least is None else self.least
        most = math.inf if self.most is None else self.most
        return math.isfinite(value) and above < value and least <= value <= most


def flag(default, help: str, *, group: str, **about) -> Any:
    """The declaration of a flag: a field of a dataclass. `about` are the other attributes of Flag."""
    return dataclasses.field(default=default, metadata={'flag': Flag(default, help, group, **about)})


def declared(config: type) -> list[Flag]:
    """The flags of a dataclass, in the order of its fields. The field `from_` is the flag --from."""
    found = []
    for field in dataclasses.fields(config):
        kind = typing.get_args(field.type)[0] if isinstance(field.type, types.UnionType) else field.type
        found.append(dataclasses.replace(field.metadata['flag'], name=field.name.rstrip('_'), type=kind))
    return [dataclasses.replace(one, excludes=_excluded_by(one, found)) for one in found]


def _excluded_by(one: Flag, all_flags: Sequence[Flag]) -> tuple[str, ...]:
    return tuple(other.name for other in all_flags if other.name in one.excludes or one.name in other.excludes)


def groups(config: type) -> dict[str, list[Flag]]:
    """The flags of a dataclass under the titles of their groups."""
    found: dict[str, list[Flag]] = {}
    for one in declared(config):
        found.setdefault(one.group, []).append(one)
    return found


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


class UnknownFlag(UsageError):
    """There is no such flag.

    Attributes:
        unknown: what was given.
        said: the message without a cure.
        has_close: the message offers a flag of a similar name.
    """

    def __init__(self, unknown: flag_values.Unknown, known: Sequence[str]):
        meant = nearest(unknown.name, known, '--{}'.format)
        self.said = f'--{unknown.name}{unknown.word.shown_place}: no such flag'
        super().__init__(f'{self.said}{meant}. See --help.')
        self.unknown = unknown
        self.has_close = bool(meant)


@dataclasses.dataclass(frozen=True)
class ParsedFlags(Generic[Config]):
    """What a command line says.

    Attributes:
        config: the values of the flags.
        words: what is neither a flag nor the value of one.
        overrides: what of the flagfiles does not count, and which flags of pairs that exclude each other.
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
    """As `parse`, and what does not count."""
    found = _parse(config, argv)
    if found.words:
        texts = ' '.join(f'{word.text}{word.shown_place}' for word in found.words)
        raise UsageError(f'{texts}: every argument is a flag; write --name=value.')
    return found


def parse_with_words(config: type[Config], argv: Sequence[str]) -> tuple[Config, list[str]]:
    """As `parse`, for a command that also takes words, such as folders, before, between or after its flags: the
    values and the words.

    Raises:
        UsageError: as `parse`, but for words.
    """
    found = _parse(config, argv)
    return found.config, [word.text for word in found.words]


def parse_known(config: type[Config], argv: Sequence[str]) -> Config:
    """As `parse`, but says nothing of flags that it does not know, and of words."""
    return _parse(config, argv, known_only=True).config


def _field_names(config: type) -> dict[str, str]:
    """The field of each flag: `from_` is the field of --from."""
    return {field.name.rstrip('_'): field.name for field in dataclasses.fields(config)}


def _parse(config: type[Config], argv: Sequence[str], known_only: bool = False) -> ParsedFlags[Config]:
    known = {one.name: one for one in declared(config)}
    found = flag_values.split(known, flag_words.words(argv[1:]))
    if found.unknown and not known_only:
        raise UnknownFlag(found.unknown[0], list(known))
    values, overrides = flag_values.settle(found.given, define(config))
    names = _field_names(config)
    given = {names[name]: value for name, value in values.items()}
    return ParsedFlags(config(**given), tuple(found.words), tuple(overrides))


def wants_help(argv: Sequence[str]) -> bool:
    return any(arg.startswith('-') and arg.lstrip('-') in ('help', 'helpfull', 'h') for arg in argv)


def help_text(config: type) -> str:
    """The part of --help that lists the flags: by group, each with its default and its range."""
    lines = []
    for title, members in groups(config).items():
        lines.append(f'{title}:')
        for one in members:
            default = one.shown_default if one.unset == REQUIRED else f'default: {one.shown_default or "none"}'
            facts = '; '.join(filter(None, (default, one.shown_range)))
            text = f'--{one.name}: {one.help} [{facts}]'
            lines += textwrap.wrap(text, _WIDTH, initial_indent='  ', subsequent_indent=' ' * 6, break_on_hyphens=False)
        lines.append('')
    return '\n'.join(lines)
