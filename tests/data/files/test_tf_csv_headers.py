"""A line with the names of the columns is no example, wherever it stands."""

import gzip

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.data.files import FileSpec, open_source, source
from estimator_trainer.errors import BadExample, UsageError

fixed = tf.io.FixedLenFeature
TEXTS = {'a': fixed([], tf.string), 'b': fixed([], tf.string)}
NUMBERS = {'a': fixed([], tf.int64), 'b': fixed([], tf.string)}


@pytest.fixture(autouse=True)
def no_source_of_another_test():
    yield
    source.forget_all()


HEADERS = {'plain': 'a,b\n', 'quoted': '"a","b"\r\n', 'after a mark': '\ufeffa,b\n', 'after empty lines': '\n\r\na,b\n'}


@pytest.mark.parametrize('header', HEADERS.values(), ids=HEADERS)
@pytest.mark.parametrize('features', [TEXTS, NUMBERS], ids=['texts', 'numbers'])
@pytest.mark.parametrize('compress', [bytes, gzip.compress], ids=['plain', 'gzip'])
def test_names_in_the_spec_and_in_the_file_are_refused(tmp_path, header, features, compress):
    ending = 'csv' if compress is bytes else 'csv.gz'
    (tmp_path / f'0.{ending}').write_bytes(compress(b'1,x\n'))
    (tmp_path / f'1.{ending}').write_bytes(compress(f'{header}1,x\n'.encode()))
    with pytest.raises(
        UsageError, match=rf'1.{ending}: its first line has the names of FileSpec.columns.*remove the line'
    ):
        open_source(f'{tmp_path}/*.{ending}', FileSpec(features, columns=('a', 'b')))


def test_a_first_line_that_only_resembles_the_names_is_an_example(tmp_path):
    (tmp_path / 'a.csv').write_text('b,a\na,x\n')
    opened = open_source(f'{tmp_path}/a.csv', FileSpec(TEXTS, columns=('a', 'b')))
    assert opened.batch(np.arange(2))['a'].numpy().tolist() == [b'b', b'a']


@pytest.mark.parametrize('repeated', ['a,b', '"a","b"'])
@pytest.mark.parametrize('features', [TEXTS, NUMBERS], ids=['texts', 'numbers'])
@pytest.mark.parametrize('first', ['a,b\n', ''], ids=['a header', 'names in the spec'])
def test_a_header_within_a_file_is_a_bad_example(tmp_path, repeated, features, first):
    """As `cat a.csv b.csv` makes it."""
    columns = () if first else ('a', 'b')
    (tmp_path / 'a.csv').write_text(f'{first}1,x\n{repeated}\n2,a\n')
    spec = FileSpec(features, columns=columns)
    opened = open_source(f'{tmp_path}/a.csv', spec)
    with pytest.raises((BadExample, tf.errors.InvalidArgumentError)):
        opened.batch(np.arange(3))
    error = opened.failure()
    assert f'a.csv, line {3 if first else 2}: repeats the header of its file' in str(error) and error.may_be_left_out
    left = open_source(f'{tmp_path}/a.csv', spec, max_bad_examples=1).batch(np.arange(3))
    assert left['b'].numpy().tolist() == [b'x', b'a']


@pytest.mark.parametrize(
    'dtypes, is_header',
    [
        ([tf.float32] * 5, True),  # as pandas names the columns of an array
        ([tf.int64, tf.string], True),
        ([tf.float32] * 4, False),  # may be an example
    ],
)
def test_a_header_of_numbers(tmp_path, dtypes, is_header):
    names = [str(number) for number in range(len(dtypes))]
    header, row = ','.join(names), ','.join(['7'] * len(dtypes))
    (tmp_path / 'a.csv').write_text(f'{header}\n{row}\n{header}\n{row}\n')
    features = {name: fixed([], dtype) for name, dtype in zip(names, dtypes)}
    read = open_source(f'{tmp_path}/a.csv', FileSpec(features), max_bad_examples=1).batch(np.arange(3))['0']
    assert read.numpy().tolist() == ([7, 7] if is_header else [7, 0, 7])


def test_a_header_of_another_order_within_its_file(tmp_path):
    (tmp_path / '0.csv').write_text('a,b\n1,x\n')
    (tmp_path / '1.csv').write_text('b,u,a\ny,,2\nb,u,a\nz,,3\n')
    opened = open_source(f'{tmp_path}/*.csv', FileSpec(TEXTS), max_bad_examples=1)
    assert opened.batch(np.arange(4))['a'].numpy().tolist() == [b'1', b'2', b'3']


def test_the_name_of_the_only_column_may_be_a_value(tmp_path):
    (tmp_path / 'a.csv').write_text('word\na\nword\nb\n')
    opened = open_source(f'{tmp_path}/a.csv', FileSpec({'word': fixed([], tf.string)}))
    assert opened.batch(np.arange(3))['word'].numpy().tolist() == [b'a', b'word', b'b']
