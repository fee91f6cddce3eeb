"""What cannot be used is named, with its file and place, or left out."""

import os
import re

import numpy as np
import pyarrow.parquet
import pytest
import tensorflow as tf

from estimator_trainer.data.files import FileSpec, file_batches, index, open_source, source
from estimator_trainer.errors import BadExample, DatasetError, UsageError
from tests.data.files import written

COUNT = 60
PARAMS = {'batch_size': 10, 'seed': 1, 'start_step': 0}


def records(folder, changed):
    """COUNT records, some of them others."""
    path = folder / 'part-0.tfrecord'
    written.write_records(path, [changed.get(i, written.example(i)) for i in range(COUNT)])
    return path


def csv(folder, changed):
    path = folder / 'part-0.csv'
    rows = [['s', 'id', 'n', 'x0']] + [changed.get(i, [f's{i}', i, i, i / 2]) for i in range(COUNT)]
    written.write_csv(path, rows)
    return path


def with_a_bit_flipped(path, position):
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)
    return path


def ids(path, ending='', **options):
    """Of one epoch."""
    data = file_batches(str(path), written.spec(ending or path.name.partition('.')[2]), 'train', PARAMS, **options)
    return [int(i) for _, labels in data.take(COUNT // 10) for i in labels]


def refused(path, **options):
    """The error that ends an epoch."""
    with pytest.raises((tf.errors.OpError, UnicodeDecodeError)):  # TensorFlow may quote bytes that are no text
        ids(path, **options)
    found = source.failure()
    assert isinstance(found, BadExample)
    return str(found)


@pytest.fixture(autouse=True)
def no_source_of_another_test():
    source._open.clear()


WRONG_TYPE = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b'x']))
BAD_RECORDS = {
    'a missing feature': (written.example(17, x=None), 'x .*required'),
    'a wrong type': (written.example(17, x=WRONG_TYPE), "x, .*types don't match"),
    'a wrong number of values': (written.example(17, id=written.int64(1, 2)), 'id, .*values'),
    'no tf.Example': (b'\xff\xfe something else', 'Could not parse'),
}
BAD_ROWS = {
    'a short row': (['s17', 17], 'Expect 4 fields but have 2'),
    'a long row': (['s17', 17, 1, 2, 3], 'Expect 4 fields but have 5'),
    'a wrong type': (['s17', 'seventeen', 1, 2], "column 'id' is 'seventeen', which is no int64"),
    'a thousands separator': (['s17', '1,700', 1, 2], "column 'id' is '1,700', which is no int64"),
    'a missing value': (['s17', '', 1, 2], "column 'id' is empty, which takes a default_value"),
}


@pytest.mark.parametrize('record, why', BAD_RECORDS.values(), ids=BAD_RECORDS)
@pytest.mark.parametrize('ending', ['tfrecord', 'array_record'])
def test_a_bad_record(tmp_path, record, why, ending):
    path = records(tmp_path, {17: record})
    if ending == 'array_record':
        from array_record.python import array_record_module

        path = tmp_path / 'part-0.array_record'
        writer = array_record_module.ArrayRecordWriter(str(path), 'group_size:1')
        for i in range(COUNT):
            writer.write(record if i == 17 else written.example(i))
        writer.close()
    said = refused(path)
    assert re.search(f'part-0.{ending}, record 17( at byte [0-9,]+)?: .*{why}', said), said
    left = ids(path, max_bad_examples=1)
    assert sorted(left) == [i for i in range(COUNT) if i != 17]
    whole = records(tmp_path, {})
    assert left == [i for i in ids(whole) if i != 17]  # every other one has its place


@pytest.mark.parametrize('row, why', BAD_ROWS.values(), ids=BAD_ROWS)
def test_a_bad_row(tmp_path, row, why):
    path = csv(tmp_path, {17: row})
    assert re.search(f'part-0.csv, line 19: .*{why}', refused(path))
    assert sorted(ids(path, max_bad_examples=1)) == [i for i in range(COUNT) if i != 17]


def test_a_bit_that_was_flipped(tmp_path):
    path = records(tmp_path, {})
    with_a_bit_flipped(path, path.read_bytes().index(b's17'))
    assert re.search('record 17 at byte [0-9,]+: its checksum does not fit', refused(path))
    assert sorted(ids(path, max_bad_examples=1)) == [i for i in range(COUNT) if i != 17]


def test_one_more_than_the_tolerated_ones(tmp_path):
    path = records(tmp_path, {i: b'?' for i in (3, 30, 50)})
    assert len(ids(path, max_bad_examples=3)) == COUNT - 3
    assert 'Could not parse' in refused(path, max_bad_examples=2)


def test_one_that_is_met_again_counts_once(tmp_path):
    path = records(tmp_path, {3: b'?'})
    data = file_batches(str(path), written.spec('tfrecord'), 'train', PARAMS, max_bad_examples=1)
    assert sum(len(labels) for _, labels in data.take(3 * COUNT // 10)) == 3 * (COUNT - 1)


def test_an_example_that_was_left_out_explains_no_other_failure(tmp_path):
    path = records(tmp_path, {3: b'?'})
    assert len(ids(path, max_bad_examples=1)) == COUNT - 1
    assert source.failure() is None


def test_a_batch_of_bad_examples_only(tmp_path):
    bad = {20, *range(40, 60)}
    path = records(tmp_path, {i: b'?' for i in bad})
    alone = file_batches(str(path), written.spec('tfrecord'), 'train', {**PARAMS, 'batch_size': 1}, max_bad_examples=21)
    found = [int(labels[0]) for _, labels in alone.take(COUNT)]
    assert len(found) == COUNT and set(found) == set(range(COUNT)) - bad  # the next one takes its place
    data = file_batches(str(path), written.spec('tfrecord'), 'eval', {**PARAMS, 'batch_size': 20}, max_bad_examples=21)
    assert [int(i) for _, labels in data for i in labels] == [i for i in range(COUNT) if i not in bad]
    assert all(len(labels) for _, labels in data)
    nothing = records(tmp_path, {i: b'?' for i in range(COUNT)})
    with pytest.raises(tf.errors.OpError, match='no example can be used'):
        next(iter(file_batches(str(nothing), written.spec('tfrecord'), 'train', PARAMS, max_bad_examples=COUNT)))
    source.forget_all()


def test_a_damaged_length_and_a_file_cut_short(tmp_path):
    path = records(tmp_path, {})
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    with pytest.raises(BadExample, match=f'ends inside record {COUNT - 1}, which begins at byte'):
        open_source(str(path), written.spec('tfrecord'))
    path.write_bytes(whole)
    second = len(written.example(0)) + 16
    with_a_bit_flipped(path, second)
    with pytest.raises(BadExample, match=f'length of record 1 at byte {second} is damaged'):
        open_source(str(path), written.spec('tfrecord'))


@pytest.mark.parametrize('ending', ['tfrecord.gz', 'csv.gz'])
def test_a_damaged_compressed_file(tmp_path, ending):
    path = tmp_path / f'part-0.{ending}'
    written.write_file(path, range(COUNT))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BadExample, match='part-0.*cannot be decompressed'):
        open_source(str(path), written.spec(ending))


def test_a_damaged_parquet_file(tmp_path):
    path = tmp_path / 'part-0.parquet'
    written.write_file(path, range(COUNT))
    whole = path.read_bytes()
    column = pyarrow.parquet.read_metadata(path).row_group(1).column(1)
    with_a_bit_flipped(path, column.dictionary_page_offset + column.total_compressed_size - 1)
    assert re.search('rows 16 to 31 .row group 1.: cannot be read', refused(path))
    path.write_bytes(whole[:-10])
    with pytest.raises(BadExample, match='damaged, cut short, or no Parquet file'):
        open_source(str(path), written.spec('parquet'))


@pytest.mark.parametrize(
    'values', [[False] * 3, [1, None, 3], ['a', 'bb', 'c'], [[1, 2], [], [3]]], ids=['bool', 'null', 'text', 'lists']
)
def test_no_bit_of_a_parquet_page_raises_anything_unnamed(tmp_path, values):
    """Pages without a checksum: what pyarrow makes of them may be other values, but never another number of rows."""
    path = tmp_path / 'part-0.parquet'
    options = {'use_dictionary': False, 'compression': 'none', 'write_page_checksum': False, 'write_statistics': False}
    pyarrow.parquet.write_table(pyarrow.table({'v': values}), path, **options)
    kind = {bool: tf.bool, str: tf.string}.get(type(values[0]), tf.int64)
    feature = tf.io.VarLenFeature(kind) if isinstance(values[0], list) else tf.io.FixedLenFeature([], kind, values[0])
    spec = FileSpec({'v': feature})
    whole, outcomes = path.read_bytes(), set()
    pages = range(4, 4 + pyarrow.parquet.read_metadata(path).row_group(0).column(0).total_compressed_size)
    for bit in (8 * byte + bit for byte in pages for bit in range(8)):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        os.utime(path, ns=(bit, bit))
        opened = open_source(str(path), spec)
        try:
            outcomes.add(int(opened.batch(np.arange(3))['v'].shape[0]))
        except (tf.errors.OpError, BadExample, UnicodeDecodeError):
            assert isinstance(opened.failure(), BadExample), opened.failure()
            outcomes.add('refused')
    assert outcomes <= {3, 'refused'} and 'refused' in outcomes


def test_a_parquet_row_without_a_value(tmp_path):
    path = tmp_path / 'part-0.parquet'
    written.write_file(path, range(COUNT))
    features = {'id': tf.io.FixedLenFeature([], tf.int64), 'n': tf.io.FixedLenFeature([], tf.int64)}
    data = open_source(str(path), FileSpec(features), max_bad_examples=COUNT)
    assert data.batch(np.arange(10))['n'].numpy().tolist() == [1, 2, 3, 4, 6, 7, 8, 9]
    with pytest.raises(Exception, match='part-0.parquet, row 5: n is missing'):
        open_source(str(path), FileSpec(features)).batch(np.array([6, 5]))


def test_a_column_that_is_not_there_or_has_another_type(tmp_path):
    path = tmp_path / 'part-0.parquet'
    written.write_file(path, range(COUNT))
    for name, feature, why in (
        ('m', tf.io.FixedLenFeature([], tf.int64), "no column 'm'"),
        ('s', tf.io.FixedLenFeature([], tf.int64), "column 's' is string"),
        ('id', tf.io.FixedLenFeature([2], tf.int64), "column 'id' is int64, which has one value in each row"),
    ):
        with pytest.raises(UsageError, match=why):
            open_source(str(path), FileSpec({name: feature}))
    rows = tmp_path / 'part-1.csv'
    written.write_file(rows, range(3))
    with pytest.raises(UsageError, match="no column 'm'; its columns are unused, s, id, n, x0"):
        open_source(str(rows), FileSpec({'m': tf.io.FixedLenFeature([], tf.int64)}))


@pytest.mark.parametrize('ending', ['tfrecord', 'array_record'])
def test_a_spec_that_all_examples_contradict(tmp_path, ending):
    path = tmp_path / f'part-0.{ending}'
    written.write_file(path, range(COUNT))
    for name, feature, why in (
        ('m', tf.io.FixedLenFeature([], tf.int64), r"has no feature 'm'; its first example has id \(int64\), "),
        ('id', tf.io.FixedLenFeature([], tf.string), r"has the feature 'id' as int64, and the FileSpec as string\. "),
        ('id', tf.io.VarLenFeature(tf.float32), r"has the feature 'id' as int64, and the FileSpec as float32\. "),
        ('id', tf.io.FixedLenFeature([2, 3], tf.int64), r"has .* 'id' with 1 value\(s\), .* \[2, 3\], which has 6"),
    ):
        with pytest.raises(UsageError, match=f'{path} {why}'):
            open_source(str(path), FileSpec({name: feature}))
    for feature in (tf.io.FixedLenFeature([], tf.int64, 0), tf.io.VarLenFeature(tf.int64)):
        open_source(str(path), FileSpec({'m': feature}))
    open_source(str(path), FileSpec({'id': tf.io.RaggedFeature(tf.string, value_key='s')}))  # of another name there


@pytest.mark.parametrize('most', [0, 7, 8, 40, 58])
def test_a_spec_that_more_examples_contradict_than_may_be_left_out(tmp_path, most):
    path = records(tmp_path, {5: b'?'})  # which says nothing
    features = {'misspelt': tf.io.FixedLenFeature([], tf.int64)}
    with pytest.raises(UsageError, match="has no feature 'misspelt'"):
        open_source(str(path), FileSpec(features), max_bad_examples=most)
    open_source(str(path), FileSpec(features), max_bad_examples=COUNT)  # each of them may be left out
    path = records(tmp_path, {most: written.example(most, misspelt=written.int64(1))})
    open_source(str(path), FileSpec(features), max_bad_examples=most)


@pytest.mark.parametrize(
    'name, is_like', [('itemz', True), ('price', False), ('items', False)], ids=['misspelt', 'rare', 'right']
)
@pytest.mark.parametrize('most', [0, 2000])
def test_a_misspelt_feature_that_may_be_absent_has_a_warning(tmp_path, caplog, name, is_like, most):
    path = tmp_path / 'part-0.tfrecord'
    written.write_records(path, [written.example(i, items=written.int64(i)) for i in range(COUNT)])
    spec = FileSpec({'id': tf.io.FixedLenFeature([], tf.int64), name: tf.io.VarLenFeature(tf.int64)})
    open_source(str(path), spec, max_bad_examples=most)
    expected = f"none of the first 8 examples of {path} has the feature '{name}', which stays empty; they have 'items'"
    assert (expected in caplog.text) == is_like
    assert is_like or 'WARNING' not in caplog.text


@pytest.mark.parametrize('ending', ['tfrecord', 'csv', 'parquet', 'array_record'])
def test_a_file_that_changes_while_it_is_read(tmp_path, ending):
    path = tmp_path / f'part-0.{ending}'
    written.write_file(path, range(COUNT))
    data = iter(file_batches(str(path), written.spec(ending), 'train', PARAMS))
    next(data)
    written.write_file(path, range(COUNT + 1))
    os.utime(path, (1, 1))
    with pytest.raises(tf.errors.OpError, match='has changed while it was in use'):
        for _ in range(100):
            next(data)
    assert 'has changed' in str(source.failure())


@pytest.mark.parametrize('ending', ['tfrecord', 'csv'])
def test_a_file_that_grows_while_it_is_opened(tmp_path, monkeypatch, ending):
    path, load_all = tmp_path / f'part-0.{ending}', index.load_all
    written.write_file(path, range(COUNT))

    def load_all_and_grow(*args):
        indexes = load_all(*args)
        written.write_file(path, range(COUNT + 1))
        return indexes

    monkeypatch.setattr(index, 'load_all', load_all_and_grow)
    with pytest.raises(DatasetError, match='part-0.* has changed while it was in use'):
        open_source(str(path), written.spec(ending))
