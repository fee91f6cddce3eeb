"""Writes the same examples in every format, for the tests of files.

Example i has: id = i, x = (i/2, i/3), s = 's<i>', v = i % 3 integers, and n = i, which every fifth one lacks.
"""

import csv
import itertools

import pyarrow
import pyarrow.parquet
import tensorflow as tf
from array_record.python import array_record_module

from estimator_trainer.data.files import FileSpec

FORMATS = ('tfrecord', 'tfrecord.gz', 'csv', 'csv.gz', 'parquet', 'array_record')
DEFAULT = -1


def spec(ending: str) -> FileSpec:
    fixed = tf.io.FixedLenFeature
    features = {'id': fixed([], tf.int64), 's': fixed([], tf.string), 'n': fixed([], tf.int64, DEFAULT)}
    if ending.startswith('csv'):
        features |= {'x0': fixed([], tf.float32)}
    else:
        features |= {'x': fixed([2], tf.float32), 'v': tf.io.VarLenFeature(tf.int64)}
    return FileSpec(features, label='id', key='s')


def write(folder, ending: str, sizes) -> str:
    """Writes one file for each size; returns their glob."""
    ids = iter(range(sum(sizes)))
    for number, size in enumerate(sizes):
        write_file(folder / f'part-{number}.{ending}', list(itertools.islice(ids, size)))
    return f'{folder}/part-*.{ending}'


def write_file(path, ids) -> None:
    ending = path.name.partition('.')[2]
    if ending.startswith('tfrecord'):
        write_records(path, [example(i) for i in ids])
    elif ending == 'array_record':
        writer = array_record_module.ArrayRecordWriter(str(path), 'group_size:1')
        for i in ids:
            writer.write(example(i))
        writer.close()
    elif ending == 'parquet':
        columns = {
            'unused': [''] * len(ids),
            'id': ids,
            'x': pyarrow.array([[i / 2, i / 3] for i in ids], pyarrow.list_(pyarrow.float32())),
            's': [f's{i}' for i in ids],
            'v': pyarrow.array([list(range(i % 3)) for i in ids], pyarrow.list_(pyarrow.int32())),
            'n': pyarrow.array([None if i % 5 == 0 else i for i in ids], pyarrow.int64()),
        }
        pyarrow.parquet.write_table(pyarrow.table(columns), path, row_group_size=16, write_page_checksum=True)
    elif ending in ('csv', 'csv.gz', 'tsv'):
        text = [['unused', 's', 'id', 'n', 'x0']]
        text += [['a "b",\n\nc', f's{i}', i, '' if i % 5 == 0 else i, i / 2] for i in ids]
        write_csv(path, text)
    else:
        raise NotImplementedError(f'{path.name}: nothing writes files of this ending')


def write_csv(path, rows) -> None:
    import gzip

    opened = gzip.open if path.name.endswith('.gz') else open
    with opened(path, 'wt', newline='') as file:
        csv.writer(file).writerows(rows)


def write_records(path, records) -> None:
    options = tf.io.TFRecordOptions('GZIP' if path.name.endswith('.gz') else '')
    with tf.io.TFRecordWriter(str(path), options) as writer:
        for record in records:
            writer.write(record)


def example(i: int, **changed) -> bytes:
    """`changed`: features in place of these; None leaves one out."""
    features = {
        'id': int64(i),
        'x': tf.train.Feature(float_list=tf.train.FloatList(value=[i / 2, i / 3])),
        's': tf.train.Feature(bytes_list=tf.train.BytesList(value=[b's%d' % i])),
        'v': int64(*range(i % 3)),
        'n': None if i % 5 == 0 else int64(i),
        **changed,
    }
    features = {name: value for name, value in features.items() if value is not None}
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def int64(*values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
