"""The one table of all patches and uses of private names: what the docstrings of compat's files say.

Each such docstring is a sentence, an empty line, three entries (a line that begins with two blanks goes on with the
entry before), and then prose:

    Touches: which parts of which library
    Without it: what happens
    For: every program, or who calls it
"""

import ast
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

from estimator_trainer.compat import patches

_COMPAT = pathlib.Path(__file__).parents[1]
_ENTRIES = ('Touches', 'Without it', 'For')


class PatchRow(NamedTuple):
    """A file: its path, its name in the table, and what its docstring says."""

    path: pathlib.Path
    name: str
    touches: str
    without: str
    whose: str


def rows() -> list[PatchRow]:
    """All of them, by name. Imports none of them."""
    found = map(row, sorted(_COMPAT.rglob('*.py')))
    return [each for each in found if each]


def lines(fixes_are_on: bool, variable: str) -> Iterator[str]:
    """What doctor prints.

    Args:
        fixes_are_on: whether those of `patches.AFTER` are at work.
        variable: of the environment, which turns them off.
    """
    mend = {name for _, names in patches.AFTER for name in names}
    found = rows()
    for each in found:
        if each.name in mend:
            how = 'mended' if fixes_are_on else f'not mended ({variable}=0)'
            yield f'{how}: {each.without} [{each.name}: {each.touches}]'
    for each in found:
        if each.name not in mend:
            yield f'for {each.whose}: {each.touches} [{each.name}]; without it: {each.without}'


def row(path: pathlib.Path) -> PatchRow | None:
    """That of one file; None: it has no such docstring."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding='utf-8'))) or ''
    entries = '\n'.join(docstring.split('\n\n')[1:2]).replace('\n  ', ' ').splitlines()
    said = dict(entry.partition(': ')[::2] for entry in entries)
    if not all(said.get(entry) for entry in _ENTRIES):
        return None
    name = path.relative_to(_COMPAT).with_suffix('').as_posix().removeprefix('patches/')
    return PatchRow(path, name, *(said[entry] for entry in _ENTRIES))
