"""Dataclasses that are read from a mapping: each field has a check of its value.

    @dataclasses.dataclass(frozen=True)
    class Role:
        count: int = key(whole(1), 1)

    read(Role, {'count': 2})

A check takes the value that is given, and returns the one to keep or raises Bad; one that looks at several values
raises Mistakes, with a Bad for each that is wrong.
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


class Mistakes(ValueError):
    """Several values are wrong. `bads`: a Bad for each."""

    def __init__(self, bads):
        self.bads = list(bads)
        super().__init__('; '.join(map(str, self.bads)))


class Collected:
    """Notes what is wrong with one value after the other.

    wrong = Collected()
    for value in values:
        with wrong.noted():
            check(value)
    wrong.end()
    """

    def __init__(self):
        self._bads: list[Bad] = []

    @contextlib.contextmanager
    def noted(self):
        try:
            yield
        except Bad as bad:
            self._bads.append(bad)
        except Mistakes as mistakes:
            self._bads += mistakes.bads

    def end(self):
        """Raises Mistakes, if there are any."""
        if self._bads:
            raise Mistakes(self._bads)


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
    wrong = Collected()
    for number, option in enumerate(value):
        with wrong.noted():
            if not isinstance(option, str) or not re.fullmatch(f'-{LINE}', option):
                raise Bad('give an option such as --name=value', f'[{number}]', option)
    wrong.end()
    return tuple(value)


def section(kind):
    return lambda value: read(kind, {} if value is None else value)


def read(kind, value):
    """A mapping -> the dataclass `kind`. Raises Bad, or Mistakes that hold everything that is wrong."""
    if not isinstance(value, Mapping):
        raise Bad('give keys and values', value=value)
    fields = {field.name: field for field in dataclasses.fields(kind) if 'check' in field.metadata}
    result, wrong = {}, Collected()
    for name, given in value.items():
        if name in fields and given is None and fields[name].default is None:
            continue
        with wrong.noted():
            if name not in fields:
                raise Bad(near(name, fields), f'.{name}', given)
            with below(f'.{name}', given):
                result[name] = fields[name].metadata['check'](given)
    for name, field in fields.items():
        with wrong.noted():
            if name not in value and field.default is dataclasses.MISSING:
                raise Bad('is missing; see docs/engines/README.md', f'.{name}')
    wrong.end()
    return kind(**result)


@contextlib.contextmanager
def below(where, given):
    """Puts a key, whose value is `given`, before that of each Bad."""

    def placed(bad):
        return Bad(bad.cure, where + bad.key, bad.value if bad.key else given)

    try:
        yield
    except Bad as bad:
        raise placed(bad) from None
    except Mistakes as mistakes:
        raise Mistakes(map(placed, mistakes.bads)) from None


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
