"""argv -> its words, each with the place where it stands: flagfiles are replaced by what is in them. absl's own reading
of flagfiles forgets the place."""

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
        return f'{self.file}, line {self.line}' if self.file else 'command line'

    @property
    def shown_place(self) -> str:
        """For an error message, after the word: nothing for the command line, which the user has before his eyes."""
        return f' ({self.place})' if self.file else ''


def words(argv: Sequence[str]) -> list[Word]:
    """The words of argv, which has no program name. What follows `--` is left as it is.

    A line of a flagfile is one word. A line may end with a comment: `#` at its beginning or after a blank.
    A flagfile that does not exist may be the name of one that comes with the package.

    Raises:
        UsageError: a flagfile cannot be read, or includes itself.
    """
    found: list[Word] = []
    rest = [Word(text) for text in argv]
    _add(rest, found, ())
    return found


def _add(rest: list[Word], found: list[Word], within: tuple[str, ...]) -> None:
    while rest:
        word = rest.pop(0)
        if word.text == '--':
            found += [word, *rest]
            return
        match = _FLAGFILE.match(word.text)
        if match is None:
            found.append(word)
            continue
        name = match[2]
        if match[1] is None:
            if not rest:
                raise UsageError(f'--flagfile{word.shown_place}: has no value; write --flagfile=FILE.')
            name = rest.pop(0).text
        if name:  # empty: a variable of the shell that is not set
            path = shipped_files.path_of(name)
            _add(_lines(path, name, word, within), found, (*within, os.path.realpath(path)))


def _lines(path: str, name: str, word: Word, within: tuple[str, ...]) -> list[Word]:
    shown = f'--flagfile={name}{word.shown_place}'
    if os.path.realpath(path) in within:
        raise UsageError(f'{shown}: the file includes itself; remove this line.')
    try:
        with open(path, encoding='utf-8-sig') as file:  # editors of Windows begin a text so
            lines = file.read().splitlines()
    except OSError as error:
        cure = 'give the path of a file that can be read'
        if isinstance(error, FileNotFoundError):
            cure += f', or one that comes with the package: {", ".join(shipped_files.flag_files())}'
        raise UsageError(f'{shown}: {error.strerror or error}; {cure}.') from error
    except UnicodeDecodeError as error:
        raise UsageError(f'{shown}: is not a text file in UTF-8 ({error.reason}); give a file of flags.') from error
    bare = (_without_comment(line) for line in lines)
    return [Word(line, name, number) for number, line in enumerate(bare, start=1) if line]


def _without_comment(line: str) -> str:
    line = line.strip()
    if line.startswith('//'):
        return ''
    return re.split(r'(?:^|\s)#', line, maxsplit=1)[0].strip()
