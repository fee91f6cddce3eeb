"""data.files.csv_rows: CSV files as people have them."""

import gzip

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.data.files import FileSpec, open_source, source
from estimator_trainer.errors import UsageError

fixed = tf.io.FixedLenFeature
FEATURES = {'id': fixed([], tf.int64), 's': fixed([], tf.string, '?'), 'x': fixed([], tf.float32, 0.5)}


def read(files, features=FEATURES, rows=None, **how):
    opened = open_source(files, FileSpec(features, **how))
    found = opened.batch(np.arange(opened.num_examples) if rows is None else np.array(rows))
    return {name: plain(value) for name, value in found.items()}


def plain(value):
    value = tf.RaggedTensor.from_sparse(value) if isinstance(value, tf.SparseTensor) else value
    return value.to_list() if isinstance(value, tf.RaggedTensor) else value.numpy().tolist()


SHARDS = {
    'as the first': 'id,s,x\n{id},"{s}",{x}\n',
    'in another order': 's,x,id\n"{s}",{x},{id}\n',
    'with others between': 'a,x,"b,c",id,s\n1,{x},"2,3",{id},"{s}"\n',
    'with CRLF': 'x,id,s\r\n{x},{id},"{s}"\r\n\r\n',
    'with CR': 'id,x,s\r{id},{x},"{s}"\r',
    'with a mark': '\ufeffs,id,x\n"{s}",{id},{x}',
    'after an empty line': '\n\r\nid,s,x\n\n{id},"{s}",{x}\n\n',
    'without a row': 'x,s,id\n',
    'without a byte': '',
    'quoted': '"id","s","x"\n"{id}","{s}","{x}"\n',
}


@pytest.mark.parametrize('compressed', [False, True])
def test_the_columns_of_each_shard_may_stand_in_another_order(tmp_path, compressed):
    expected = {'id': [], 's': [], 'x': []}
    for number, text in enumerate(SHARDS.values()):
        row = {'id': 2**53 + number, 's': f'a "" , \n{number}ä', 'x': number + 0.25}
        if '{id}' in text:
            for name, values in expected.items():
                values.append(row[name].replace('""', '"').encode() if name == 's' else row[name])
        content = text.format(**row).encode()
        path = tmp_path / f'part-{number:02}.csv'
        if compressed:
            path = path.with_suffix('.csv.gz')
        path.write_bytes(gzip.compress(content) if compressed else content)
    found = read(f'{tmp_path}/part-*')
    assert found == expected
    rows = [5, 0, 5, 3]
    assert read(f'{tmp_path}/part-*', rows=rows) == {n: [values[row] for row in rows] for n, values in expected.items()}


def test_an_empty_field_where_the_first_shard_has_one_column(tmp_path):
    (tmp_path / '0.csv').write_text('x\n1\n')
    (tmp_path / '1.csv').write_text('id,x\n7,\n8,3\n')
    opened = open_source(f'{tmp_path}/*.csv', FileSpec({'x': fixed([], tf.int64, -1)}))
    assert opened.batch(np.arange(3))['x'].numpy().tolist() == [1, -1, 3]
    source.forget_all()


def test_a_row_of_another_length_in_a_shard_with_another_order_is_a_bad_one(tmp_path):
    (tmp_path / 'a.csv').write_text('id,s\n1,a\n')
    (tmp_path / 'b.csv').write_text('s,u,id\nb,0,2\n3,c\nd,"x"y,4\n')
    features = {'id': fixed([], tf.int64), 's': fixed([], tf.string)}
    opened = open_source(f'{tmp_path}/*.csv', FileSpec(features), max_bad_examples=2)
    assert opened.batch(np.arange(4))['id'].numpy().tolist() == [1, 2]
    opened = open_source(f'{tmp_path}/*.csv', FileSpec(features))
    for row, why in ((2, 'b.csv, line 3: has 2 fields, and its file 3 columns'), (3, 'line 4: cannot be divided')):
        with pytest.raises(Exception, match=why):
            opened.batch(np.array([row]))
    source.forget_all()


def test_a_categorical_column_has_one_value_or_none(tmp_path):
    """As tf.feature_column.make_parse_example_spec makes it."""
    (tmp_path / 'a.csv').write_text('word,n,r,f\na,1,5,1.5\n,,,\nb,-3,7,2\n')
    features = {
        'word': tf.io.VarLenFeature(tf.string),
        'n': tf.io.VarLenFeature(tf.int64),
        'r': tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64),
        'f': tf.io.VarLenFeature(tf.float32),
    }
    assert read(str(tmp_path / 'a.csv'), features) == {
        'word': [[b'a'], [], [b'b']],
        'n': [[1], [], [-3]],
        'r': [[5], [], [7]],
        'f': [[1.5], [], [2.0]],
    }
    (tmp_path / 'b.csv').write_text('word,n,r,f\na,1x,5,1.5\n')
    opened = open_source(str(tmp_path / 'b.csv'), FileSpec(features))
    with pytest.raises(tf.errors.InvalidArgumentError):
        opened.batch(np.array([0]))
    assert "b.csv, line 2: column 'n' is '1x', which is no int64" in str(opened.failure())
    source.forget_all()


def test_a_shape_of_one_and_integers_keep_their_digits(tmp_path):
    (tmp_path / 'a.csv').write_text(f'n,d\n{2**53 + 1},1700000000.5\n{-(2**63)},0.1\n')
    features = {'n': fixed([1], tf.int64), 'd': fixed([], tf.float64)}
    assert read(str(tmp_path / 'a.csv'), features) == {'n': [[2**53 + 1], [-(2**63)]], 'd': [1700000000.5, 0.1]}


def test_a_tab_by_the_name_or_by_the_spec(tmp_path):
    (tmp_path / 'a.tsv.gz').write_bytes(gzip.compress(b'id\ts\tx\n1\ta,b\t2\n'))
    (tmp_path / 'b.csv').write_text('id\ts\tx\n1\ta,b\t2\n')
    assert read(str(tmp_path / 'a.tsv.gz')) == read(str(tmp_path / 'b.csv'), delimiter='\t')


@pytest.mark.parametrize('delimiter', [';', '|', '\t'])
def test_another_letter_between_the_names_is_named(tmp_path, delimiter):
    (tmp_path / 'a.csv').write_text(f'id{delimiter}"s"{delimiter}x\n1{delimiter}a{delimiter}2\n')
    with pytest.raises(UsageError, match='first line is one column.* delimiter=') as caught:
        open_source(str(tmp_path / 'a.csv'), FileSpec(FEATURES))
    assert f'delimiter={delimiter!r})' in str(caught.value)


REFUSED = {
    'a list': (
        {'id': fixed([2], tf.int64)},
        "'id': a column of CSV has one value in each row, and the shape .2. has 2",
    ),
    'a type': ({'id': fixed([], tf.uint8)}, "'id': no column of CSV is read as uint8; use float32, float64"),
    'no column': ({'m': fixed([], tf.int64)}, "has no column 'm'; its columns are id, s, s"),
    'two columns': ({'s': fixed([], tf.string)}, "has 2 columns 's'; write it with different names"),
    'no features': (None, 'only Parquet files allow: name the features'),
}


@pytest.mark.parametrize('features, why', REFUSED.values(), ids=REFUSED)
def test_a_mistake_in_the_spec_is_named_at_the_start(tmp_path, features, why):
    (tmp_path / 'a.csv').write_text('id,s,s\n1,a,b\n')
    with pytest.raises(UsageError, match=why):
        open_source(str(tmp_path / 'a.csv'), FileSpec(features))


@pytest.mark.parametrize('delimiter', ['||', '"', '\n'])
def test_a_delimiter_is_one_letter(tmp_path, delimiter):
    (tmp_path / 'a.csv').write_text('id,s\n1,a\n')
    with pytest.raises(UsageError, match='one ASCII letter is needed'):
        open_source(str(tmp_path / 'a.csv'), FileSpec(FEATURES, delimiter=delimiter))


def test_a_file_that_is_named_twice_has_one_warning(tmp_path, caplog):
    (tmp_path / '2024').mkdir()
    (tmp_path / '2024' / 'a.csv').write_text('id,s,x\n1,a,2\n')
    (tmp_path / 'latest').symlink_to('2024')
    for _ in range(2):
        assert read(f'{tmp_path}/*/a.csv')['id'] == [1, 1]
    said = f'{tmp_path}/2024/a.csv and {tmp_path}/latest/a.csv are the same file, so its examples come twice'
    assert [said in message for message in caplog.messages] == [True]
    read(f'{tmp_path}/2024/a.csv')
    assert len(caplog.messages) == 1
