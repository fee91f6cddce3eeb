"""One declaration for each flag: a field of a frozen dataclass.

    @dataclasses.dataclass(frozen=True)
    class Config:
        batch_size: int = flag(64, 'Examples of a replica in each step.', group='Training', least=1)

The field gives the flag its name and type. absl's flag, the checks of ranges, --help and docs/reference.md all come
from it. `flags.py` reads them. Imports no TensorFlow.
"""

import dataclasses
import math
import types
import typing
from collections.abc import Sequence
from typing import Any

REQUIRED = 'required'


@dataclasses.dataclass(frozen=True)
class Flag:
    """What the declaration of a flag says.

    Attributes:
        default: the value without the flag; None where `unset` says what holds then.
        help: what it does.
        group: the title under which --help and the reference show it.
        why: the reason for the default.
        unit: the unit of the value.
        unset: what holds without the flag, where the default does not say it; REQUIRED: the flag has to be given.
        least, above, most: bounds of a number: at least, more than, at most.
        wanted: the error message for a value out of bounds; by default 'at least LEAST is needed.'
        choices: all possible values.
        auto: the word auto is a value too. It is 0, and stands for a number that is found out later.
        repeated: the flag may be given several times, and each time adds a value.
        excludes: names of the flags that cannot have a value beside this one. The flag that counts takes their values
            back. One flag of a pair names the other.
        last_counts: the last value counts, even if it is in a flagfile. Engines and supervisors put their value on the
            command line before the user's flags.
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
    auto: bool = False
    repeated: bool = False
    excludes: tuple[str, ...] = ()
    last_counts: bool = False
    name: str = ''
    type: type = str

    @property
    def shown_default(self) -> str:
        """The default as it would be written on a command line, or what holds without the flag."""
        if self.unset:
            return self.unset
        if isinstance(self.default, bool):
            return str(self.default).lower()
        if isinstance(self.default, tuple):
            return ','.join(self.default)
        return '' if self.default is None else f'{self.default} {self.unit}'.strip()

    @property
    def shown_range(self) -> str:
        """The choices or the bounds, such as 'at least 1 s'; '' without any."""
        if self.choices:
            return f'one of {", ".join(filter(None, self.choices))}'
        bounds = (('over', self.above), ('at least', self.least), ('at most', self.most))
        words = ['auto'] if self.auto else []
        words += [f'{word} {bound} {self.unit}'.strip() for word, bound in bounds if bound is not None]
        return ', or '.join(words) if self.auto else ', '.join(words)

    def admits(self, value: object) -> bool:
        """Whether a value is within the bounds. Values that are no numbers always are."""
        if value is None or not isinstance(value, int | float):
            return True
        above = -math.inf if self.above is None else self.above
        least = -math.inf if self.least is None else self.least
        most = math.inf if self.most is None else self.most
        return math.isfinite(value) and above < value and least <= value <= most


def flag(default: object, help: str, *, group: str, **about: Any) -> Any:
    """Declares a flag: a field of a dataclass. `about` has the other attributes of Flag."""
    return dataclasses.field(default=default, metadata={'flag': Flag(default, help, group, **about)})


def declared(config: type) -> list[Flag]:
    """The flags of a dataclass, in the order of its fields. The field `from_` is the flag --from."""
    flags: list[Flag] = []
    for field in dataclasses.fields(config):
        kind = typing.get_args(field.type)[0] if isinstance(field.type, types.UnionType) else field.type
        kind = typing.get_origin(kind) or kind  # tuple[str, ...] -> tuple
        flags.append(dataclasses.replace(field.metadata['flag'], name=field.name.rstrip('_'), type=kind))
    return [dataclasses.replace(one, excludes=_excluded_by(one, flags)) for one in flags]


def _excluded_by(one: Flag, all_flags: Sequence[Flag]) -> tuple[str, ...]:
    return tuple(other.name for other in all_flags if other.name in one.excludes or one.name in other.excludes)


def groups(config: type) -> dict[str, list[Flag]]:
    """The flags of a dataclass, by the title of their group."""
    by_group: dict[str, list[Flag]] = {}
    for one in declared(config):
        by_group.setdefault(one.group, []).append(one)
    return by_group
