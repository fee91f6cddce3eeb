"""The one table of all patches and uses of private names: what docstrings in compat's files say.

A file is one patch, or has several functions or classes that are one each. The docstring of a patch is a sentence, an
empty line, three entries (a line that begins with two blanks goes on with the entry before), and then prose:

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
    """A patch: where it is, its name in the table, and what its docstring says.

    Attributes:
        lines: from the first to the last one of a function or class; None where the whole file is the patch.
        name: that of the file, such as 'training_end', or of a function in it, such as 'graphs.definition'.
    """

    path: pathlib.Path
    lines: tuple[int, int] | None
    name: str
    touches: str
    without: str
    users: str


def rows() -> list[PatchRow]:
    """All of them, by name. Imports none of them."""
    return [row for path in sorted(_COMPAT.rglob('*.py')) for row in _rows_of(path)]


def lines(fixes_are_on: bool, variable: str) -> Iterator[str]:
    """What doctor prints.

    Args:
        fixes_are_on: whether those of `patches.AFTER` are at work.
        variable: of the environment, which turns them off.
    """
    mend = {name for _, names in patches.AFTER for name in names}
    patches_of_compat = rows()
    for each in patches_of_compat:
        if each.name in mend:
            how = 'mended' if fixes_are_on else f'not mended ({variable}=0)'
            yield f'{how}: {each.without} [{each.name}: {each.touches}]'
    for each in patches_of_compat:
        if each.name not in mend:
            yield f'for {each.users}: {each.touches} [{each.name}]; without it: {each.without}'


def row_at(path: pathlib.Path, line: int) -> PatchRow | None:
    """The patch that this line of a file belongs to."""
    of_line = [row for row in _rows_of(path) if row.lines is None or row.lines[0] <= line <= row.lines[1]]
    return of_line[-1] if of_line else None  # a function comes after its file


def _rows_of(path: pathlib.Path) -> Iterator[PatchRow]:
    """The file itself, if it is a patch, and those of its functions and classes that are one."""
    tree = ast.parse(path.read_text(encoding='utf-8'))
    file_name = path.relative_to(_COMPAT).with_suffix('').as_posix().removeprefix('patches/')
    entries = _entries(tree)
    if entries:
        yield PatchRow(path, None, file_name, *entries)
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and (entries := _entries(node)):
            yield PatchRow(path, (node.lineno, node.end_lineno or node.lineno), f'{file_name}.{node.name}', *entries)


def _entries(node: ast.Module | ast.FunctionDef | ast.ClassDef) -> list[str]:
    """What the docstring says of touches, what is without it, and for whom; []: it is none of a patch."""
    docstring = ast.get_docstring(node) or ''
    entries = '\n'.join(docstring.split('\n\n')[1:2]).replace('\n  ', ' ').splitlines()
    said = dict(entry.partition(': ')[::2] for entry in entries)
    return [said[entry] for entry in _ENTRIES] if all(said.get(entry) for entry in _ENTRIES) else []
