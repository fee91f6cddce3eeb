"""data.files.parquet_columns and parquet: each type and each null is what stands there, or is refused by name."""

import contextlib
import datetime
import decimal
import errno
import math
import os
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import tensorflow as tf

from estimator_trainer.data.files import FileSpec, batches, open_source
from estimator_trainer.errors import BadExample, DatasetError, DatasetRefused, DatasetUnavailable, UsageError
from estimator_trainer.evaluation import serving_inputs

BIG = 2**53 + 1
fixed, var = tf.io.FixedLenFeature, tf.io.VarLenFeature


def write(folder, *arrays, name='a.parquet', **how):
    """A file with a column v, and one y that numbers the rows."""
    (array,) = arrays
    table = pa.table({'v': array, 'y': pa.array(range(len(array)), pa.int64())})
    pyarrow.parquet.write_table(table, folder / name, **how)
    return str(folder / name)


def read(files, feature, rows, **how):
    features = None if feature is None else {'v': feature, 'y': fixed([], tf.int64)}
    source = open_source(files, FileSpec(features), **how)
    found = source.batch(np.array(rows))
    return plain(found['v']), found['y'].numpy().tolist()


def plain(value):
    value = tf.RaggedTensor.from_sparse(value) if isinstance(value, tf.SparseTensor) else value
    return value.to_list() if isinstance(value, tf.RaggedTensor) else value.numpy().tolist()


def lists(items, kind):
    return pa.array(items, pa.list_(kind))


SAME = {  # column, feature, what is read
    'int64': (pa.array([BIG, -(2**63), 2**63 - 1]), fixed([], tf.int64), None),
    'int64 in lists': (lists([[BIG], [], [1, 2]], pa.int64()), var(tf.int64), None),
    'uint64': (pa.array([2**64 - 1, 0], pa.uint64()), fixed([], tf.uint64), None),
    'uint64 that fits': (pa.array([2**63 - 1, 0], pa.uint64()), None, None),
    'int8 as float': (pa.array([-128, 127], pa.int8()), fixed([], tf.float32), [-128.0, 127.0]),
    'float64': (pa.array([1700000000.5, 0.1]), None, None),
    'float64 as float32': (
        pa.array([0.1, float('inf')]),
        fixed([], tf.float32),
        [float(np.float32(0.1)), float('inf')],
    ),
    'float16': (pa.array(np.array([1.5, 2], np.float16)), None, [1.5, 2.0]),
    'whole floats': (pa.array([2.0, -3.0]), fixed([], tf.int32), [2, -3]),
    'bools': (pa.array([True, False]), None, [1, 0]),
    'bools as bools': (pa.array([True, False]), fixed([], tf.bool), None),
    'zeros and ones as bools': (pa.array([1, 0]), fixed([], tf.bool), [True, False]),
    'text': (pa.array(['', 'ä']), None, [b'', 'ä'.encode()]),
    'bytes': (pa.array([b'\0\xff', b'']), None, None),
    'fixed bytes': (pa.array([b'ab', b'cd'], pa.binary(2)), None, [b'ab', b'cd']),
    'dictionary': (pa.array(['a', None, 'b']).dictionary_encode(), fixed([], tf.string, '?'), [b'a', b'?', b'b']),
    'dictionary in lists': (
        lists([['a', 'b'], ['a']], pa.string()).cast(pa.list_(pa.dictionary(pa.int32(), pa.string()))),
        None,
        [[b'a', b'b'], [b'a']],
    ),
    'decimals': (pa.array([decimal.Decimal('0.10'), decimal.Decimal('2.00')]), fixed([], tf.float64), [0.1, 2.0]),
    'decimals as text': (pa.array([decimal.Decimal('0.10')]), fixed([], tf.string), [b'0.10']),
    'whole decimals': (pa.array([decimal.Decimal(BIG)], pa.decimal128(38, 2)), fixed([], tf.int64), [BIG]),
    'dates': (pa.array([datetime.date(1970, 1, 3)]), fixed([], tf.int64), [2]),
    'timestamps': (pa.array([BIG], pa.timestamp('us', 'UTC')), fixed([], tf.int64), [BIG]),
    'one value': (pa.array(['a', None]), var(tf.string), [[b'a'], []]),
    'one value, ragged': (pa.array([5, None], pa.int64()), tf.io.RaggedFeature(tf.int64), [[5], []]),
    'shape of one': (pa.array([5, 6]), fixed([1, 1], tf.int64), [[[5]], [[6]]]),
    'lists': (lists([[1, 2], None, []], pa.int32()), var(tf.int64), [[1, 2], [], []]),
    'fixed lists': (pa.array([[1, 2], [3, 4]], pa.list_(pa.float32(), 2)), None, [[1.0, 2.0], [3.0, 4.0]]),
    'shape of lists': (lists([[1, 2, 3, 4]], pa.int8()), fixed([2, 2], tf.int64), [[[1, 2], [3, 4]]]),
    'default': (pa.array([None, BIG]), fixed([], tf.int64, 7), [7, BIG]),
    'default of lists': (
        lists([[1, 1], None, [BIG, 3]], pa.int64()),
        fixed([2], tf.int64, [8, 9]),
        [[1, 1], [8, 9], [BIG, 3]],
    ),
    'default of fixed lists': (
        pa.array([None, ['a', 'b']], pa.list_(pa.string(), 2)),
        fixed([2], tf.string, ['x', 'y']),
        [[b'x', b'y'], [b'a', b'b']],
    ),
    'nothing but nulls': (pa.nulls(2), fixed([], tf.float32, 0.5), [0.5, 0.5]),
    'nothing but nulls, several': (pa.nulls(2), fixed([2], tf.int64, [1, 2]), [[1, 2], [1, 2]]),
    'nothing but nulls, lists': (pa.nulls(2), var(tf.string), [[], []]),
    'nothing but empty lists': (lists([[], []], pa.null()), var(tf.int64), [[], []]),
}


@pytest.mark.parametrize('column, feature, expected', SAME.values(), ids=SAME)
def test_is_read_as_it_stands(tmp_path, column, feature, expected):
    rows = [*range(len(column)), 0]
    expected, path = column.to_pylist() if expected is None else expected, write(tmp_path, column, row_group_size=2)
    readable = False
    with contextlib.suppress(pa.ArrowInvalid):
        pyarrow.parquet.read_table(path)
        readable = True
    if not readable:
        pytest.skip('this pyarrow cannot read what it has written')
    found, numbers = read(path, feature, rows)
    assert found == [expected[row] for row in rows] and numbers == rows


BAD = {  # column, feature, what is said of row 1; row 0 can be used
    'a null': (pa.array([BIG, None]), fixed([], tf.int64), 'v is missing'),
    'a null list': (lists([[1, 2], None], pa.int64()), fixed([2], tf.int64), 'v is missing'),
    'a short list': (lists([[1, 2], [3]], pa.int64()), fixed([2], tf.int64), 'v has 1 values, not 2'),
    'a null within': (lists([[BIG, 2], [1, None]], pa.int64()), fixed([2], tf.int64), 'v has in its list a null'),
    'a null within a list': (lists([[BIG], [1, None, 3]], pa.int64()), var(tf.int64), 'v has in its list a null'),
    'a null within floats': (lists([[1.5], [None]], pa.float32()), var(tf.float32), 'v has in its list a null'),
    'a null within texts': (lists([['a'], ['b', None]], pa.string()), var(tf.string), 'v has in its list a null'),
    'a null within fixed lists': (
        pa.array([[1, 2], [None, 3]], pa.list_(pa.int64(), 2)),
        tf.io.RaggedFeature(tf.int64),
        'v has in its list a null',
    ),
    'a large number': (pa.array([1, 2**63], pa.uint64()), None, 'v is 9223372036854775808, which is no int64'),
    'a fraction': (pa.array([1.0, 2.5]), fixed([], tf.int64), 'v is 2.5, which is no int64'),
    'no number': (pa.array([1.0, float('nan')]), fixed([], tf.int64), 'v is nan, which is no int64'),
    'a large float': (pa.array([1.0, 2.0**63]), fixed([], tf.int64), r'v is 9.22\d*e\+18, which is no int64'),
    'too many digits': (pa.array([2**24, 2**24 + 1]), fixed([], tf.float32), 'v is 16777217, which is no float32'),
    'the largest': (pa.array([-(2**63), 2**63 - 1]), fixed([], tf.float64), 'v is 9223372036854775807, which is no'),
    'too large': (pa.array([1.0, 1e300]), fixed([], tf.float32), r'v is 1e\+300, which is no float32'),
    'a number as a bool': (pa.array([1, 2]), fixed([], tf.bool), 'v is 2, which is no bool'),
    'a number of a list': (
        lists([[1], [5, 300]], pa.int64()),
        var(tf.uint8),
        'v has in its list 300, which is no uint8',
    ),
    'a decimal': (
        pa.array([decimal.Decimal(BIG), decimal.Decimal('0.5')], pa.decimal128(38, 1)),
        fixed([], tf.int64),
        'v is 0.5, which is no int64',
    ),
}


@pytest.mark.parametrize('column, feature, why', BAD.values(), ids=BAD)
def test_a_value_that_cannot_be_had_is_a_bad_example(tmp_path, column, feature, why):
    path = write(tmp_path, column)
    source = open_source(path, FileSpec(feature and {'v': feature, 'y': fixed([], tf.int64)}))
    with pytest.raises(BadExample):
        source.batch(np.array([1, 0]))
    error = source.failure()
    assert isinstance(error, BadExample) and error.may_be_left_out
    assert re.search(f'a.parquet, row 1: {why}', str(error)), error
    found, numbers = read(path, feature, [0, 1, 0], max_bad_examples=1)
    good = plain(source.batch(np.array([0]))['v'])[0]
    assert (found, numbers) == ([good, good], [0, 0])


REFUSED = {
    'nested lists': (pa.array([[[1, 2]]]), None, 'list<.*>, and only lists of values are read'),
    'nested lists by name': (pa.array([[[1, 2]]]), var(tf.int64), 'only lists of values are read'),
    'a struct': (pa.array([{'x': 1}]), None, 'which no feature reads; name in FileSpec.features'),
    'a map': (pa.array([[('a', 1)]], pa.map_(pa.string(), pa.int64())), var(tf.int64), 'which no feature reads'),
    'a timestamp': (pa.array([1], pa.timestamp('us')), None, 'which tf.int64 reads as a number of its unit'),
    'a timestamp as a float': (pa.array([1], pa.timestamp('us')), fixed([], tf.float32), 'tf.int64 reads'),
    'a decimal': (pa.array([decimal.Decimal(1)]), None, 'tf.float64 reads rounded, and tf.string as text'),
    'text as a number': (pa.array(['a']), fixed([], tf.int64), 'string, which can be read as string, and cannot'),
    'a number as text': (pa.array([1]), fixed([], tf.string), 'int64, which can be read as int64, and cannot'),
    'one value for two': (pa.array([1]), fixed([2], tf.int64), 'which has one value in each row'),
    'a short default': (lists([[1, 2]], pa.int64()), fixed([2], tf.int64, [1]), 'default_value has 1 values, and its'),
    'a default with a fraction': (pa.array([1]), fixed([], tf.int64, 0.5), 'default_value 0.5 is none of int64'),
    'a default out of range': (pa.array([1]), fixed([], tf.uint8, 300), 'default_value 300 is none of uint8'),
    'a default that is no number': (pa.array([1]), fixed([], tf.int32, math.nan), 'default_value nan is none of int32'),
    'text as a default': (pa.array([1]), fixed([], tf.float32, 'a'), "default_value 'a' is none of float32"),
    'a complex number': (pa.array([1]), fixed([], tf.complex64), 'no column is read as complex64; use'),
    'no value': (lists([[]], pa.int64()), fixed([0], tf.int64), 'holds no value; leave it out'),
    'partitions': (pa.array([[1]]), tf.io.RaggedFeature(tf.int64, 'w'), 'has no value_key and no partitions'),
    'another kind': (pa.array([1]), tf.io.FixedLenSequenceFeature([], tf.int64, True), 'is a FixedLenSequenceFeature'),
}


@pytest.mark.parametrize('column, feature, why', REFUSED.values(), ids=REFUSED)
def test_what_no_feature_can_be_is_refused_by_name_at_the_start(tmp_path, column, feature, why):
    path = write(tmp_path, column)
    with pytest.raises(UsageError, match=f"'v'.*{why}"):
        open_source(path, FileSpec(feature and {'v': feature, 'y': fixed([], tf.int64)}))


def test_columns_of_one_name_are_refused(tmp_path):
    pyarrow.parquet.write_table(pa.table([[1], [2]], names=['v', 'v']), tmp_path / 'a.parquet')
    for features in (None, {'v': fixed([], tf.int64)}):
        with pytest.raises(UsageError, match="has 2 columns 'v'; write it with different names"):
            open_source(str(tmp_path / 'a.parquet'), FileSpec(features))


@pytest.mark.parametrize('other', [pa.nulls(2), lists([[], []], pa.null()), lists([[5], [6]], pa.int8())])
def test_shards_may_have_other_types_of_a_column(tmp_path, other):
    """pandas writes a column of Nones with the type null."""
    write(tmp_path, lists([[BIG], [3, 4]], pa.int64()))
    write(tmp_path, other, name='b.parquet')
    found, _ = read(f'{tmp_path}/*.parquet', var(tf.int64), [3, 0, 2])
    expected = [item or [] for item in other.to_pylist()]
    assert found == [expected[1], [BIG], expected[0]]


def test_string_views_are_text(tmp_path):
    if not hasattr(pa, 'string_view'):
        pytest.skip('an old pyarrow')
    found, _ = read(
        write(tmp_path, pa.array(['a', 'a text that is longer than a view'], pa.string_view())), None, [1, 0]
    )
    assert found == [b'a text that is longer than a view', b'a']


def test_what_an_export_parses_has_the_types_that_were_trained_with():
    features = {'v': fixed([], tf.float64), 'b': fixed([], tf.bool), 'w': var(tf.int32), 's': fixed([], tf.string, '?')}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        receiver = serving_inputs.parsed_examples(features)()
        example = tf.train.Example()
        example.features.feature['v'].float_list.value.append(1.5)
        example.features.feature['b'].int64_list.value.append(1)
        example.features.feature['w'].int64_list.value.extend([3, 4])
        ((fed,),) = [receiver.receiver_tensors.values()]
        found = session.run(receiver.features, {fed: [example.SerializeToString()]})
    assert {name: receiver.features[name].dtype for name in features} == {n: f.dtype for n, f in features.items()}
    assert (found['v'], found['b'], found['s']) == ([1.5], [True], [b'?']) and found['w'].values.tolist() == [3, 4]


def test_a_link_that_leads_nowhere_is_one_line(tmp_path):
    write(tmp_path, pa.array([1]))
    (tmp_path / 'b.parquet').symlink_to('/nowhere')
    with pytest.raises(DatasetError, match='b.parquet cannot be read .No such file or directory'):
        open_source(f'{tmp_path}/*.parquet', FileSpec(None))


@pytest.mark.parametrize(
    'number, kind, code',
    [(errno.ESTALE, DatasetUnavailable, 200), (errno.EMFILE, DatasetRefused, 74), (errno.EACCES, DatasetError, 66)],
)
@pytest.mark.parametrize('function', ['read_metadata', 'ParquetFile'])
def test_what_the_system_refuses_has_its_words_and_its_code(tmp_path, monkeypatch, function, number, kind, code):
    path = write(tmp_path, pa.array([1, 2]))

    def refused(*arguments, **named):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(pyarrow.parquet, function, refused)
    with pytest.raises(kind, match=f'a.parquet cannot be read .{os.strerror(number)}') as raised:
        open_source(path, FileSpec(None))
    assert raised.value.exit_code == code


def test_memory_is_bounded_by_what_is_decoded(tmp_path):
    """In the file a dictionary makes these texts small."""
    rows = 40_000
    texts = pa.array(['a text of a hundred letters '.ljust(100, str(row % 10)) for row in range(rows)])
    path = write(tmp_path, texts, row_group_size=rows // 10)
    for mib in (1, 100):
        source = open_source(path, FileSpec(None), in_memory_mb=mib)
        for first in range(0, rows, 2000):
            source.batch(np.arange(first, first + 2000))
        assert (source.held_bytes <= mib * 2**20) and (source.held_bytes > mib * 2**19 or mib == 100)
        decoded = rows * (100 + 8 + 8)
        assert decoded * 0.9 < source.block_bytes.sum() < decoded * 1.1
        assert batches.shuffle_of(source, 'auto', mib) == ('blocks' if mib == 1 else 'records')


@pytest.mark.parametrize('mib', [1, 2, 100])
def test_each_row_group_is_decoded_once_in_an_epoch(tmp_path, monkeypatch, mib):
    rows, groups = 100_000, 10
    path = write(tmp_path, pa.array(np.arange(rows)), row_group_size=rows // groups)  # 160 kB each
    loads = []

    class Counting(pyarrow.parquet.ParquetFile):
        def read_row_group(self, number, **kwargs):
            loads.append(number)
            return super().read_row_group(number, **kwargs)

    monkeypatch.setattr(pyarrow.parquet, 'ParquetFile', Counting)
    source = open_source(path, FileSpec(None), in_memory_mb=mib)
    del loads[:]  # those that were samples
    order = batches._order(source, 'blocks', 3)
    for first in range(0, rows, 1000):
        source.batch(order(tf.range(first, first + 1000, dtype=tf.int64)))
    assert len(loads) <= groups + groups // 2  # some of the next epoch
