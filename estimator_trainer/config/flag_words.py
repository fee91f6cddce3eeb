"""Splits a command line into its words, each with the place where it stands. Flagfiles are replaced by their lines.

absl reads flagfiles too, but forgets the places.
"""

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from estimator_trainer.config import shipped_files
from estimator_trainer.errors import UsageError

_FLAGFILE = re.compile(r'--?flagfile(=(.*))?$', re.DOTALL)


class Word(NamedTuple):
    """A word of the command line, or of a line of a flagfile."""

    text: str
    file: str = ''  # '': the command line itself
    line: int = 0

    @property
    def place(self) -> str:
        """'FILE, line N' or 'command line'."""
        return f'{self.file}, line {self.line}' if self.file else 'command line'

    @property
    def shown_place(self) -> str:
        """The place for an error message: ' (FILE, line N)', or '' for the command line, which the user sees."""
        return f' ({self.place})' if self.file else ''


def words(argv: Sequence[str]) -> list[Word]:
    """The words of argv, which has no program name. Words after `--` stay as they are.

    A line of a flagfile is one word. A line may end with a comment, which begins with `#` at the beginning of the line
    or after a blank. If a flagfile does not exist, the file of this name that comes with the package is read.

    Raises:
        UsageError: a flagfile cannot be read, or includes itself.
    """
    result: list[Word] = []
    rest = [Word(text) for text in argv]
    _add(rest, result, ())
    return result


def _add(rest: list[Word], result: list[Word], within: tuple[str, ...]) -> None:
    """Moves the words of `rest` to `result`. `within` has the real paths of the flagfiles that are being read."""
    while rest:
        word = rest.pop(0)
        if word.text == '--':
            result += [word, *rest]
            return
        match = _FLAGFILE.match(word.text)
        if match is None:
            result.append(word)
            continue
        name = match[2]
        if match[1] is None:
            if not rest:
                raise UsageError(f'--flagfile{word.shown_place}: has no value; write --flagfile=FILE.')
            name = rest.pop(0).text
        if name:  # an empty name comes from a variable of the shell that is not set
            path = shipped_files.path_of(name)
            _add(_lines(path, name, word, within), result, (*within, os.path.realpath(path)))


def _lines(path: str, name: str, word: Word, within: tuple[str, ...]) -> list[Word]:
    flag = f'--flagfile={name}{word.shown_place}'
    if os.path.realpath(path) in within:
        raise UsageError(f'{flag}: the file includes itself; remove this line.')
    try:
        with open(path, encoding='utf-8-sig') as file:  # editors of Windows write a byte order mark
            lines = file.read().splitlines()
    except OSError as error:
        cure = 'give the path of a file that can be read'
        if isinstance(error, FileNotFoundError):
            cure += f', or one that comes with the package: {", ".join(shipped_files.flag_files())}'
        raise UsageError(f'{flag}: {error.strerror or error}; {cure}.') from error
    except UnicodeDecodeError as error:
        raise UsageError(f'{flag}: is not a text file in UTF-8 ({error.reason}); give a file of flags.') from error
    bare = (_without_comment(line) for line in lines)
    return [Word(line, name, number) for number, line in enumerate(bare, start=1) if line]


def _without_comment(line: str) -> str:
    line = line.strip()
    if line.startswith('//'):
        return ''
    return re.split(r'(?:^|\s)#', line, maxsplit=1)[0].strip()
