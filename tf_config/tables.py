"""Tables of text."""


def aligned(rows, right=False):
    """A line for each row of cells, which are aligned to the left or the right of their columns."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    align = str.rjust if right else str.ljust
    return ['  '.join(map(align, row, widths)).rstrip() for row in rows]
