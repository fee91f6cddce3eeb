"""Tables of text."""

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]], right: bool = False) -> list[str]:
    """Aligns a table.

    Args:
        rows: the cells of each row; all rows have the same number of cells.
        right: aligns the cells to the right of their columns, not to the left.

    Returns:
        One line for each row, without blanks at its end.
    """
    widths = [max(map(len, column)) for column in zip(*rows)]
    align = str.rjust if right else str.ljust
    return ['  '.join(map(align, row, widths)).rstrip() for row in rows]
