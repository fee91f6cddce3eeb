"""Tables for a terminal: columns that line up."""

from collections.abc import Sequence


def lines(rows: Sequence[Sequence[str]], to_the_right: bool = False) -> list[str]:
    """A line for each row. Cells stand at the left of their column, or at its right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    align = str.rjust if to_the_right else str.ljust
    return ['  '.join(map(align, row, widths)).rstrip() for row in rows]
