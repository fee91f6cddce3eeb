"""Rows of CSV whose columns stand in another order: they mean what the module csv and decode_csv take them for."""

import csv
import io

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies

from estimator_trainer.data.files import FileSpec, csv_rows, open_source, source
from estimator_trainer.errors import UsageError

fixed = tf.io.FixedLenFeature
DIVIDE = csv_rows.Division(b',')
TEXTS = strategies.text(strategies.characters(blacklist_categories=['Cs']) | strategies.sampled_from('",\n\r ;'))
STYLES = strategies.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC])
many = hypothesis.settings(max_examples=300, deadline=None)


def line(fields, style=csv.QUOTE_MINIMAL, delimiter=','):
    text = io.StringIO(newline='')
    csv.writer(text, quoting=style, delimiter=delimiter, lineterminator='\r\n').writerow(fields)
    return text.getvalue().removesuffix('\r\n')


@many
@hypothesis.given(strategies.lists(TEXTS, min_size=1, max_size=5), STYLES, strategies.sampled_from(',;\t|'))
def test_what_the_module_csv_writes_is_divided_into_what_it_has_written(fields, style, delimiter):
    row = line(fields, style, delimiter).encode()
    divided = csv_rows.Division(delimiter.encode())(row)
    assert divided is not None and list(map(csv_rows.unquoted, divided)) == fields
    assert delimiter.encode().join(divided) == row


def decoded(row, number):
    """The fields of a row as TensorFlow reads them; None if it refuses the row."""
    try:
        return [field.numpy() for field in tf.io.decode_csv(row, [['']] * number)]
    except tf.errors.InvalidArgumentError:
        return None


@many
@hypothesis.given(strategies.text('",ab \n\r', min_size=1))
def test_what_tensorflow_reads_is_divided_and_nothing_else(text):
    row = text.rstrip('\r\n').encode()
    hypothesis.assume(row and not set(b'\r\n') & set(b''.join(row.split(b'"')[::2])))  # there another row begins
    divided, most = DIVIDE(row), row.count(b',') + 1
    if divided is None:
        assert all(decoded(row, number) is None for number in range(1, most + 1))
    else:
        assert decoded(row, len(divided)) == [csv_rows.unquoted(field).encode() for field in divided]


LONG = 'x' * 200_000  # more than the module csv takes
ODD = ['x\ny', 'q\r\nr', 'he said "hi"', '', ' ', 'a,b', LONG, f'"{LONG}\n"', '\n', 'plain', '\xe9', 'a\rb']


@pytest.mark.parametrize('style', [csv.QUOTE_ALL, csv.QUOTE_MINIMAL])
def test_a_file_with_another_order_of_its_columns_has_the_same_values(tmp_path, style):
    def write(name, *columns):
        rows = [{'a': n, 'b': text, 'c': n / 2, 'u': text} for n, text in enumerate(ODD)]
        texts = [line([row[name] for name in columns], style) for row in rows]
        (tmp_path / name).write_bytes('\r\n'.join([line(columns), *texts]).encode())

    write('0.csv', 'a', 'b', 'c', 'u')
    write('1.csv', 'u', 'c', 'b', 'a')
    write('2.csv', 'b', 'a', 'u', 'c')
    features = {'a': fixed([], tf.int64), 'b': fixed([], tf.string, '?'), 'c': fixed([], tf.float32)}
    opened = open_source(f'{tmp_path}/*.csv', FileSpec(features))
    batch = opened.batch(np.arange(3 * len(ODD)))
    assert batch['a'].numpy().tolist() == 3 * list(range(len(ODD)))
    assert batch['c'].numpy().tolist() == 3 * [n / 2 for n in range(len(ODD))]
    assert [text.decode() for text in batch['b'].numpy()] == 3 * [text or '?' for text in ODD]


def test_a_long_field_of_a_wrong_type_is_named(tmp_path):
    (tmp_path / 'a.csv').write_text(f'a,b\n1x,{LONG}\n')
    opened = open_source(f'{tmp_path}/a.csv', FileSpec({'a': fixed([], tf.int64), 'b': fixed([], tf.string)}))
    with pytest.raises(tf.errors.InvalidArgumentError):
        opened.batch(np.arange(1))
    assert "line 2: column 'a' is '1x', which is no int64" in str(opened.failure())
    source.forget_all()


@pytest.mark.parametrize('delimiter', ['§', 'ä', '｜'])
def test_a_delimiter_is_a_letter_of_ascii(tmp_path, delimiter):
    (tmp_path / 'a.csv').write_text(f'a{delimiter}b\n1{delimiter}2\n')
    with pytest.raises(UsageError, match='one ASCII letter is needed'):
        open_source(f'{tmp_path}/a.csv', FileSpec({'a': fixed([], tf.int64)}, delimiter=delimiter))
