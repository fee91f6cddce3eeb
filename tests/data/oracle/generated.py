"""Generated columns: their values, nulls among them, and the feature that reads them."""

from typing import Any, NamedTuple

import tensorflow as tf
from hypothesis import strategies as st

FLOATS = st.sampled_from([0.0, -0.0, 0.1, 1.5, -3.0, 2.0**24 + 1, 2.0**53, 1700000000.123, 1e300, float('inf')])
TEXTS = st.one_of(
    st.sampled_from(['', ' ', 'a', 'ä', '1,234', 'a"b', 'line\nend', 'cr\r\nlf', '\ttab', 'null', 'x^', "'", '0']),
    st.text(st.characters(exclude_categories=['Cs'], exclude_characters='\0'), max_size=12),
)
INTEGERS = st.one_of(
    st.sampled_from([0, 1, -1, 2**24 + 1, 2**31 - 1, -(2**31), 2**31, 2**53 + 1, 2**63 - 1, -(2**63)]),
    st.integers(-(2**63), 2**63 - 1),
)
VALUES = {'int64': INTEGERS, 'float64': FLOATS, 'string': TEXTS, 'bool': st.booleans()}
NAMES = st.sampled_from(['v', 'w', 'a.b', 'ä', 'a b', 'x^y'])
LATER = ('cut later', 'appended later', 'flipped later')  # while the file is read
DAMAGES = ('none', 'none', 'none', 'none', 'cut', 'flipped', 'appended', 'empty', *LATER)


class Column(NamedTuple):
    kind: str  # of VALUES
    is_list: bool
    values: list[Any]  # of each row: a value, a list of them, or None
    dtype: tf.DType  # of the feature that reads it
    has_default: bool


class Data(NamedTuple):
    columns: dict[str, Column]
    rows: int


@st.composite
def of_format(draw, file_format) -> Data:
    """Data that files of this format can hold, and features that can read them."""
    is_parquet, is_csv = file_format == 'parquet', file_format.startswith('csv')
    dtypes = DTYPES if is_parquet else OF_CSV if is_csv else OF_EXAMPLES
    rows, columns = draw(st.integers(1, 12)), {}
    for name in draw(st.lists(NAMES, min_size=1, max_size=3, unique=True)):
        kind, is_list = draw(st.sampled_from(sorted(dtypes))), not is_csv and draw(st.booleans())
        value = VALUES[kind]
        if not is_parquet:
            value = value.filter(lambda each: each not in (1e300, ''))  # no float32; nothing, in CSV
        if is_list:
            value = st.lists(st.one_of(value, st.none()) if is_parquet and draw(st.booleans()) else value, max_size=3)
        if draw(st.booleans()):
            value = st.one_of(value, st.none())
        values = draw(st.lists(value, min_size=rows, max_size=rows))
        columns[name] = Column(kind, is_list, values, draw(st.sampled_from(dtypes[kind])), draw(st.booleans()))
    return Data(columns, rows)


DTYPES = {
    'int64': (tf.int64, tf.int32, tf.float32, tf.float64, tf.uint8, tf.uint64, tf.bool),
    'float64': (tf.float64, tf.float32, tf.int64),
    'string': (tf.string,),
    'bool': (tf.bool, tf.int64, tf.float32),
}
OF_CSV = {'int64': (tf.int64, tf.int32), 'float64': (tf.float64, tf.float32), 'string': (tf.string,)}
OF_EXAMPLES = {'int64': (tf.int64,), 'float64': (tf.float32,), 'string': (tf.string,)}
