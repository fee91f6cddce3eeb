"""Dataclasses that are read from a mapping: each field has a check of its value.

    @dataclasses.dataclass(frozen=True)
    class Role:
        count: int = key(whole(1), 1)

    wrong = []
    read(Role, {'count': 2}, '', wrong)

A check takes the value that is given, the key at which it stands and a list. It returns the value to keep, or adds a
Mistake to the list for each thing that is wrong.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from estimator_trainer.errors import nearest

LINE = r'[^\x00-\x1f\x7f]+'  # no line ends: these texts go into scripts


class Mistake(NamedTuple):
    """What is wrong with the value of a key, such as '.roles.worker.count', and the cure."""

    key: str
    value: Any
    cure: str


Check = Callable[[Any, str, list[Mistake]], Any]


def key(check: Check, default: Any = dataclasses.MISSING) -> Any:
    """A field with its check. One whose default is None may be given as null."""
    return dataclasses.field(default=default, metadata={'check': check})


def must(holds: Callable[[Any], Any], cure: str) -> Check:
    """The check that `holds(value)` is true."""

    def check(value: Any, where: str, wrong: list[Mistake]) -> Any:
        if not holds(value):
            wrong.append(Mistake(where, value, cure))
        return value

    return check


def text(pattern: str, cure: str) -> Check:
    return must(lambda value: isinstance(value, str) and re.fullmatch(pattern, value), cure)


line = text(LINE, 'give text of one line')
_FOLDER = rf'/({LINE})?'
folder = text(_FOLDER, 'give an absolute path, the same in every task')
folder_or_url = text(
    rf'{_FOLDER}|[^/]+://{LINE}', 'give an absolute path, the same in every task, or a URL such as s3://bucket/run'
)
positive = must(lambda value: type(value) in (int, float) and 0 < value < math.inf, 'give a number over 0')
_option = text(f'-{LINE}', 'give an option such as --name=value')


def whole(least: int, most: float = math.inf) -> Check:
    bounds = f'from {least}' + (f' to {most}' if most < math.inf else '')
    return must(lambda value: type(value) is int and least <= value <= most, f'give a whole number {bounds}')


def one_of(*choices: str) -> Check:
    return must(lambda value: value in choices, f'give {", ".join(choices[:-1])} or {choices[-1]}')


def options(value: Any, where: str, wrong: list[Mistake]) -> tuple:
    """A list of command line options, each one word of a shell; () where one of them is wrong."""
    before = len(wrong)
    if isinstance(value, list):
        for number, option in enumerate(value):
            _option(option, f'{where}[{number}]', wrong)
    else:
        wrong.append(Mistake(where, value, 'give a list of options, such as [--name=value]'))
    return tuple(value) if len(wrong) == before else ()


def section(kind: type) -> Check:
    return lambda value, where, wrong: read(kind, {} if value is None else value, where, wrong)


def read(kind: type, value: Any, where: str, wrong: list[Mistake]) -> Any:
    """Makes the dataclass `kind` of a mapping. None where something is wrong."""
    if not isinstance(value, Mapping):
        wrong.append(Mistake(where, value, 'give keys and values'))
        return None
    fields = {field.name: field for field in dataclasses.fields(kind) if 'check' in field.metadata}
    kept = {}
    for name, given in value.items():
        if name not in fields:
            wrong.append(Mistake(f'{where}.{name}', given, unknown(name, fields)))
        elif given is not None or fields[name].default is not None:
            kept[name] = fields[name].metadata['check'](given, f'{where}.{name}', wrong)
    for name, field in fields.items():
        if name not in value and field.default is dataclasses.MISSING:
            wrong.append(Mistake(f'{where}.{name}', None, 'is missing; see docs/engines/README.md'))
    return None if wrong else kind(**kept)


def unknown(name: object, known: Iterable[str]) -> str:
    """The cure for a key that is not known."""
    known = list(known)
    return f'no such key{nearest(str(name), known) or "; known are " + ", ".join(known)}'


def message(source: str, name: str, value: Any, cure: str) -> str:
    """'job.yaml: roles.worker.count=0: give …'. The value of a whole section is left out."""
    is_section = dataclasses.is_dataclass(value) or bool(
        isinstance(value, tuple) and value and isinstance(value[0], tuple)
    )
    given = '' if value is None or is_section else f'={value}'
    return f'{source}: {name}{given}: {cure}' if name else f'{source}: {cure}'
