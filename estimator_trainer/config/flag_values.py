"""Finds the value of each flag among the words of a command line, and the flags that do not count because of another.

1. A flag of the command line counts more than one of a flagfile.
2. If a flag is given twice in the same place, the later one counts.
3. Both rules also hold for a pair of flags that exclude each other, such as --max_steps and --epochs.
4. `--name=` takes earlier values of the flag back, if the flag may be without a value.
"""

import dataclasses
from collections.abc import Container, Mapping, Sequence
from typing import Any

from absl import flags as absl_flags

from estimator_trainer.config.declaration import Flag
from estimator_trainer.config.flag_words import Word
from estimator_trainer.errors import UsageError, nearest

_KINDS = {bool: 'true or false', int: 'a whole number', float: 'a number'}


@dataclasses.dataclass(frozen=True)
class Given:
    """A flag as it was given. `text` is its value, and `written` the flag with its value as they were written."""

    flag: Flag
    text: str
    written: str
    word: Word

    def refused(self, problem: str) -> UsageError:
        """The error that refuses the flag with this value."""
        return UsageError(f'{self.written}{self.word.shown_place}: {problem}')

    @property
    def with_place(self) -> str:
        """The flag and where it was given, for a message."""
        return f'{self.written} ({self.word.place})'


@dataclasses.dataclass(frozen=True)
class Unknown:
    """A word that looks like a flag, but no such flag exists."""

    name: str
    text: str  # the value; '' without one
    word: Word


@dataclasses.dataclass(frozen=True)
class Split:
    """The words of a command line by their kind, in the order of the command line."""

    given: list[Given]
    unknown: list[Unknown]
    words: list[Word]  # words that are neither flags nor values


def split(known: Mapping[str, Flag], words: Sequence[Word]) -> Split:
    """Finds the flags among the words.

    Raises:
        UsageError: a flag has no value and needs one, or has one and takes none.
    """
    result, rest = Split([], [], []), list(words)
    while rest:
        word = with_equals(rest.pop(0), known)
        if word.text == '--':
            result.words.extend(rest)
            break
        name = word.text.removeprefix('-').removeprefix('-')
        if not word.text.startswith('-') or not name.strip('-'):
            result.words.append(word)
            continue
        name, equals, text = name.partition('=')
        if name in known:
            result.given.append(_given(known[name], word, bool(equals), text, rest))
        elif name.startswith('no') and name[2:] in known and known[name[2:]].type is bool:
            if equals:
                raise UsageError(
                    f'{word.text}{word.shown_place}: --{name} takes no value; write --{name}, or --{name[2:]}=true.'
                )
            result.given.append(Given(known[name[2:]], 'false', f'--{name}', word))
        else:
            result.unknown.append(Unknown(name, text, word))
    return result


def with_equals(word: Word, known: Container[str]) -> Word:
    """A line of a flagfile such as `--batch_size 64` with the `=` that a word of a command line needs. Others stay as
    they are.

    Args:
        known: the names of the flags.
    """
    name, *value = word.text.split(maxsplit=1)[:2] if word.file else [word.text]
    if not value or not name.startswith('-') or name.removeprefix('-').removeprefix('-') not in known:
        return word
    return word._replace(text=f'{name}={value[0]}')


def _given(flag: Flag, word: Word, has_value: bool, text: str, rest: list[Word]) -> Given:
    name = f'--{flag.name}'
    if not has_value and flag.type is bool:
        return Given(flag, 'true', name, word)
    if not has_value:
        if not rest or rest[0].text.startswith('--') or rest[0].file != word.file:
            raise UsageError(f'{name}{word.shown_place}: has no value; write {name}=VALUE.')
        text = rest.pop(0).text
    return Given(flag, text, f'{name}={text}', word)


@dataclasses.dataclass(frozen=True)
class Override:
    """The flag `loser` does not count, because `winner` does."""

    winner: Given
    loser: Given

    def __str__(self) -> str:
        return f'{self.winner.with_place} overrides {self.loser.with_place}'


def settle(given: Sequence[Given], absl: absl_flags.FlagValues) -> tuple[dict[str, Any], list[Override]]:
    """The value of each flag that was given, by its name; and the flags that do not count because of another one.

    Raises:
        UsageError: a value is of the wrong kind, or out of its bounds.
    """
    values: dict[str, Any] = {}
    counts: dict[str, Given] = {}  # what counts for each flag, or for each name of a repeated flag such as --param
    overrides: list[Override] = []

    def override(winner: Given, names: Sequence[str], in_pair: bool = False) -> None:
        for name in names:
            loser = counts.pop(name, None)
            if loser and (in_pair and loser.text or loser.word.file and loser.text != winner.text):
                overrides.append(Override(winner, loser))

    for one in sorted(given, key=lambda one: not one.word.file and not one.flag.last_counts):
        flag, value = one.flag, _value(one, absl[one.flag.name].parser)
        if flag.repeated:
            override(one, [name for name in counts if name.startswith(f'{flag.name}=')] if not one.text else [])
            values[flag.name] = (*values.get(flag.name, ()), one.text) if one.text else ()
        else:
            values[flag.name] = value
        name = f'{flag.name}={one.text.partition("=")[0]}' if flag.repeated else flag.name
        override(one, [name])
        counts[name] = one
        if value is not None:
            override(one, flag.excludes, in_pair=True)
            values.update({other: None for other in flag.excludes if other in values})
    return values, overrides


def _value(one: Given, parser: 'absl_flags.ArgumentParser[Any]') -> Any:
    flag, text = one.flag, one.text
    if not text and flag.type is not tuple:
        if flag.default not in (None, ''):
            raise one.refused(f'has no value; without the flag it is {flag.shown_default}.')
        return flag.default
    if flag.type is tuple:
        return tuple(part for part in parser.parse(text) or () if part)
    if flag.choices and text not in flag.choices:
        raise one.refused(f'one of {", ".join(flag.choices)} is needed{nearest(text, flag.choices)}.')
    if flag.auto and text == 'auto':
        return 0
    try:
        value = parser.parse(text)
    except ValueError:
        raise one.refused(f'{_KINDS[flag.type]}{" or auto" if flag.auto else ""} is needed.') from None
    if not flag.admits(value):
        raise one.refused(flag.wanted or f'at least {flag.least} is needed.')
    return value
