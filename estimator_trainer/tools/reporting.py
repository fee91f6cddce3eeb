"""How the reports of tools are laid out as text: wrapped lines, points and tables. Pure."""

import textwrap
from collections.abc import Iterable, Sequence

from tf_config import tables

WIDTH = 110  # characters of a line


def wrapped(lines: Iterable[str], first: str = '', others: str = '') -> list[str]:
    """Lines of at most WIDTH characters.

    Args:
        first, others: what the first line of each text begins with, and what its further lines begin with.
    """
    wrapper = textwrap.TextWrapper(
        WIDTH, initial_indent=first, subsequent_indent=others, break_long_words=False, break_on_hyphens=False
    )
    return [part for line in lines for part in wrapper.wrap(line)]


def section(title: str, lines: Sequence[str]) -> list[str]:
    """A title with points below it, after an empty line; [] without points."""
    return ['', f'{title}:', *wrapped(lines, '  ', '    ')] if lines else []


def table(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Rows whose columns are aligned, and indented as the points of a section are."""
    return [f'  {line}' for line in tables.aligned(list(rows))]


def some(words: Sequence[str], most: int) -> str:
    """'a, b and 3 more'."""
    rest = f' and {len(words) - most} more' if len(words) > most else ''
    return ', '.join(words[:most]) + rest
