"""Writes generated data with libraries that are not ours, and says what each row is by them."""

import csv
import gzip
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import tensorflow as tf
from array_record.python import array_record_module

from estimator_trainer.data.files import FileSpec

_DEFAULTS = {'int64': 7, 'float64': 0.5, 'string': 'none', 'bool': True}
_ARROW = {'int64': pa.int64(), 'float64': pa.float64(), 'string': pa.string(), 'bool': pa.bool_()}


def default_of(column):
    found = _DEFAULTS[column.kind]
    return column.dtype.as_numpy_dtype(found) if column.dtype != tf.string else found


def spec(data) -> FileSpec:
    features = {}
    for name, column in data.columns.items():
        if column.is_list:
            features[name] = tf.io.VarLenFeature(column.dtype)
        else:
            features[name] = tf.io.FixedLenFeature([], column.dtype, default_of(column) if column.has_default else None)
    return FileSpec(features)


def exact(value, dtype):
    """The value in that type as NumPy has it; None: there is none. Floats are rounded."""
    if value is None:
        return None
    if dtype == tf.string:
        return value.encode()
    kind = dtype.as_numpy_dtype
    if dtype == tf.bool:
        return bool(value) if value in (0, 1) else None
    if dtype.is_integer:
        whole = not isinstance(value, float) or (math.isfinite(value) and value == int(value))
        return int(value) if whole and np.iinfo(kind).min <= value <= np.iinfo(kind).max else None
    with np.errstate(over='ignore'):
        found = float(kind(value))
    if isinstance(value, float):
        return found if math.isfinite(found) or not math.isfinite(value) else None
    return found if int(found) == value else None


def rows(data) -> list[dict | None]:
    """What each row is; None: it cannot be had."""
    found: list[dict | None] = []
    for row in range(data.rows):
        features: dict | None = {}
        for name, column in data.columns.items():
            value = column.values[row]
            if column.is_list:
                item = [exact(each, column.dtype) for each in value or []]
                item = None if None in item else item
            elif value is None:
                item = exact(default_of(column).item() if column.dtype != tf.string else 'none', column.dtype)
                item = item if column.has_default else None
            else:
                item = exact(value, column.dtype)
            if item is None or features is None:
                features = None
            else:
                features[name] = item
        found.append(features)
    return found


def write_parquet(path, data, choose) -> None:
    arrays = {
        name: pa.array(column.values, pa.list_(_ARROW[column.kind]) if column.is_list else _ARROW[column.kind])
        for name, column in data.columns.items()
    }
    pyarrow.parquet.write_table(
        pa.table(arrays),
        path,
        row_group_size=choose([1, 2, 5, 100]),
        compression=choose(['none', 'snappy', 'gzip', 'zstd']),
        use_dictionary=choose([True, False]),
        data_page_version=choose(['1.0', '2.0']),
        write_page_checksum=True,
    )


def write_csv(path, data, choose) -> None:
    """By the csv module. Another column stands among them."""
    names = [*data.columns, 'unused']
    if choose([True, False]):
        names.reverse()
    opened = gzip.open if str(path).endswith('.gz') else open
    end = choose(['\n', '\r\n', '\r'])
    quoting = choose([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    if any(set('\r\n') & set(str(value)) for column in data.columns.values() for value in column.values):
        quoting = csv.QUOTE_ALL  # an end of a line that is not `end` gets no quotes, and no reader finds it again
    with opened(path, 'wt', newline='', encoding=choose(['utf-8', 'utf-8-sig'])) as file:
        writer = csv.writer(file, lineterminator=end, quoting=quoting)
        writer.writerow(names)
        for row in range(data.rows):
            values = {name: column.values[row] for name, column in data.columns.items()} | {'unused': 'u"\n,'}
            writer.writerow(['' if values[name] is None else _text(values[name]) for name in names])
            if choose([True, False, False]):
                file.write(end)


def _text(value) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def write_examples(path, data, choose) -> None:
    kind = 'GZIP' if str(path).endswith('.gz') else choose(['', '', 'ZLIB'])
    with tf.io.TFRecordWriter(str(path), tf.io.TFRecordOptions(kind)) as writer:
        for record in serialized(data):
            writer.write(record)


def write_array_record(path, data, choose) -> None:
    how = choose(['group_size:1', 'group_size:4', 'group_size:1,uncompressed', 'group_size:3,brotli:1'])
    writer = array_record_module.ArrayRecordWriter(str(path), how)
    for record in serialized(data):
        writer.write(record)
    writer.close()


def serialized(data) -> list[bytes]:
    """The rows as tf.Examples."""
    lists = {'int64': 'int64_list', 'float64': 'float_list', 'string': 'bytes_list'}
    examples = []
    for row in range(data.rows):
        example = tf.train.Example()
        for name, column in data.columns.items():
            value = column.values[row]
            if value is not None:
                values = value if column.is_list else [value]
                found = getattr(example.features.feature[name], lists[column.kind]).value
                found.extend([each.encode() if isinstance(each, str) else each for each in values])
        examples.append(example.SerializeToString())
    return examples


def rows_that_stand(path, file_format, data) -> list[dict | None] | None:
    """What TensorFlow and array_record read in a file of tf.Examples, damaged as it may be; None: they refuse it."""
    if file_format == 'array_record':
        ways = [lambda: array_record_module.ArrayRecordReader(str(path)).read_all()]
    else:
        kinds = ['GZIP'] if str(path).endswith('.gz') else ['', 'ZLIB']
        ways = [lambda kind=kind: list(tf.data.TFRecordDataset(str(path), kind).as_numpy_iterator()) for kind in kinds]
    for way in ways:
        try:
            return [_parsed(record, data) for record in way()]
        except (tf.errors.OpError, RuntimeError, IndexError, ValueError):
            continue
    return None


def _parsed(record, data) -> dict | None:
    try:
        tensors = tf.io.parse_single_example(record, dict(spec(data).features))
    except tf.errors.InvalidArgumentError:
        return None
    found = {}
    for name, value in tensors.items():
        array = (tf.sparse.to_dense(value) if isinstance(value, tf.SparseTensor) else value).numpy()
        found[name] = array if isinstance(array, bytes) else array.tolist()
    return found


WRITERS = {
    'parquet': write_parquet,
    'csv': write_csv,
    'csv.gz': write_csv,
    'tfrecord': write_examples,
    'tfrecord.gz': write_examples,
    'array_record': write_array_record,
}
