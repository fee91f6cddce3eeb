"""Dataclasses that are read from a mapping: each field has a check of its value.

    @dataclasses.dataclass(frozen=True)
    class Role:
        count: int = key(whole(1), 1)

    read(Role, {'count': 2})

A check takes the value that is given, and returns the one to keep or raises Bad.
"""

import contextlib
import dataclasses
import difflib
import math
import re
from collections.abc import Mapping

LINE = r'[^\x00-\x1f\x7f]+'  # no line ends: these texts go into scripts


class Bad(ValueError):
    """What is wrong with a value, and the cure.

    Attributes:
        key: below the one that was checked, such as '.count' or '[0]'; '' is that one itself.
        value: of `key`.
    """

    def __init__(self, cure, key='', value=None):
        super().__init__(cure)
        self.cure, self.key, self.value = cure, key, value


def key(check, default=dataclasses.MISSING):
    """A field with its check. One whose default is None may be given as null."""
    return dataclasses.field(default=default, metadata={'check': check})


def text(pattern, cure):
    def check(value):
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise Bad(cure)
        return value

    return check


line = text(LINE, 'give text of one line')
_FOLDER = rf'/({LINE})?'
folder = text(_FOLDER, 'give an absolute path, the same in every task')
folder_or_url = text(
    rf'{_FOLDER}|[^/]+://{LINE}', 'give an absolute path, the same in every task, or a URL such as s3://bucket/run'
)


def whole(least, most=math.inf):
    wanted = f'a whole number from {least}' + (f' to {most}' if most < math.inf else '')

    def check(value):
        if type(value) is not int or not least <= value <= most:
            raise Bad(f'give {wanted}')
        return value

    return check


def positive(value):
    if type(value) not in (int, float) or not 0 < value < math.inf:
        raise Bad('give a number over 0')
    return value


def one_of(*choices):
    def check(value):
        if value not in choices:
            raise Bad(f'give {", ".join(choices[:-1])} or {choices[-1]}')
        return value

    return check


def options(value):
    """A list of command line options, each one word of a shell."""
    if not isinstance(value, list):
        raise Bad('give a list of options, such as [--name=value]')
    for number, option in enumerate(value):
        if not isinstance(option, str) or not re.fullmatch(f'-{LINE}', option):
            raise Bad('give an option such as --name=value', f'[{number}]', option)
    return tuple(value)


def section(kind):
    return lambda value: read(kind, {} if value is None else value)


def read(kind, value):
    """A mapping -> the dataclass `kind`. Raises Bad."""
    if not isinstance(value, Mapping):
        raise Bad('give keys and values', value=value)
    fields = {field.name: field for field in dataclasses.fields(kind) if 'check' in field.metadata}
    result = {}
    for name, given in value.items():
        if name not in fields:
            raise Bad(near(name, fields), f'.{name}', given)
        if given is None and fields[name].default is None:
            continue
        with below(f'.{name}', given):
            result[name] = fields[name].metadata['check'](given)
    for name, field in fields.items():
        if name not in result and field.default is dataclasses.MISSING:
            raise Bad('is missing; see docs/engines/README.md', f'.{name}')
    return kind(**result)


@contextlib.contextmanager
def below(where, given):
    """Puts a key, whose value is `given`, before that of a Bad."""
    try:
        yield
    except Bad as bad:
        raise Bad(bad.cure, where + bad.key, bad.value if bad.key else given) from None


def near(name, known) -> str:
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return 'no such key' + (f'; did you mean {close[0]}?' if close else f'; known are {", ".join(known)}')


def shown(source, name, value, cure) -> str:
    """'job.yaml: roles.worker.count=0: give …'. Of a whole section only its key is shown."""
    is_section = dataclasses.is_dataclass(value) or bool(
        isinstance(value, tuple) and value and isinstance(value[0], tuple)
    )
    given = '' if value is None or is_section else f'={value}'
    return f'{source}: {name}{given}: {cure}' if name else f'{source}: {cure}'
