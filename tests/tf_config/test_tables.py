"""Tables of text."""

from tf_config import tables

ROWS = [('name', 'count'), ('a', '1'), ('of many', '')]


def test_columns_are_aligned_and_no_line_ends_with_spaces():
    assert tables.aligned(ROWS) == ['name     count', 'a        1', 'of many']
    assert tables.aligned(ROWS, right=True) == ['   name  count', '      a      1', 'of many']
    assert tables.aligned([]) == []
