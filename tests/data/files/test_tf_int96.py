"""Timestamps that Spark, Hive and Impala have stored as INT96: any time from the year -5,800,000 on, in nanoseconds."""

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import tensorflow as tf

from estimator_trainer.data.files import FileSpec, open_source

LEAST, MOST = -(2**63), 2**63 - 1
FIRST, LAST = datetime.datetime(1677, 9, 21, 0, 12, 43, 145225), datetime.datetime(2262, 4, 11, 23, 47, 16, 854775)
OUTSIDE = [datetime.datetime(1, 1, 1), datetime.datetime(1677, 9, 21), datetime.datetime(2262, 4, 12)]
OUTSIDE += [datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)]


def write(path, column, **how):
    pyarrow.parquet.write_table(pa.table({'t': column}), path, use_deprecated_int96_timestamps=True, **how)
    stored = pyarrow.parquet.read_metadata(path).schema.column(0)
    assert stored.physical_type == 'INT96'
    return str(path)


def read(path, rows, feature=None, **how):
    opened = open_source(path, FileSpec({'t': feature or tf.io.FixedLenFeature([], tf.int64, 7)}), **how)
    column = opened.batch(np.array(rows))['t']
    if isinstance(column, tf.SparseTensor):
        return tf.RaggedTensor.from_sparse(column).to_list()
    return column.numpy().tolist()


def test_nanoseconds_within_int64_are_those_of_pyarrow(tmp_path):
    values = [LEAST, LEAST + 1, -1, None, 0, 1704067200123456789, MOST - 1, MOST]
    path = write(tmp_path / 'a.parquet', pa.array(values, pa.timestamp('ns')), row_group_size=3)
    rows = [*range(len(values)), 0]
    assert read(path, rows) == [7 if values[row] is None else values[row] for row in rows]


@pytest.mark.parametrize('value', OUTSIDE)
def test_a_time_outside_is_a_bad_example_and_no_other_time(tmp_path, value):
    near = [FIRST, LAST]
    path = write(tmp_path / 'a.parquet', pa.array([near[0], None, value, near[1]], pa.timestamp('us')))
    opened = open_source(path, FileSpec({'t': tf.io.FixedLenFeature([], tf.int64, 7)}))
    with pytest.raises(Exception, match=f'a.parquet, row 2: t has {value.date()}T.*, and int64 holds nanoseconds from'):
        opened.batch(np.arange(4))
    micro = [(each - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1) for each in near]
    assert read(path, range(4), max_bad_examples=1) == [1000 * micro[0], 7, 1000 * micro[1]]


def test_lists_of_times(tmp_path):
    day = datetime.datetime(2024, 1, 1)
    lists = pa.array([[day], None, [], [day, OUTSIDE[-1]], [None], [day, day]], pa.list_(pa.timestamp('us')))
    path = write(tmp_path / 'a.parquet', lists)
    since_1970 = 1704067200 * 10**9
    rows = read(path, range(6), tf.io.VarLenFeature(tf.int64), max_bad_examples=2)  # rows 3 and 4
    assert rows == [[since_1970], [], [], [since_1970] * 2]


def test_other_nanoseconds_are_read_once(tmp_path, monkeypatch):
    path, opened = str(tmp_path / 'a.parquet'), []
    pyarrow.parquet.write_table(pa.table({'t': pa.array([1, 2], pa.timestamp('ns'))}), path)
    original = pyarrow.parquet.ParquetFile
    monkeypatch.setattr(
        pyarrow.parquet, 'ParquetFile', lambda *args, **how: opened.append(how) or original(*args, **how)
    )
    source = open_source(path, FileSpec({'t': tf.io.FixedLenFeature([], tf.int64)}))
    del opened[:]  # of the samples
    assert source.batch(np.arange(2))['t'].numpy().tolist() == [1, 2] and len(opened) == 1
