"""predict.signature and predict.examples: every kind of signature with every kind of files."""

import dataclasses
import types

import array_record.python.array_record_module as array_record
import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.data.files import listing
from estimator_trainer.data.files.spec import KNOWN_FORMATS
from estimator_trainer.errors import BadExample, UsageError
from estimator_trainer.tools.predict import examples, parts, signature
from estimator_trainer.tools.predict.examples import Examples
from estimator_trainer.tools.predict.predict_plan import fingerprint
from tests.data.files import written
from tests.tools.predict import models
from tests.tools.predict.test_predict_plan import PLAN

ROWS = 20


@pytest.fixture(scope='module')
def export(tmp_path_factory):
    return models.estimator_export(tmp_path_factory.mktemp('estimator'))


@pytest.fixture(scope='module')
def of_estimator(export):
    return signature.Model(export)


@pytest.fixture(scope='module')
def of_tensors(tmp_path_factory):
    return signature.Model(models.tensor_export(tmp_path_factory.mktemp('tensors')))


def write(folder, kind) -> str:
    if kind == 'csv':
        return models.write_csv(folder / 'all.csv', ROWS)
    if kind == 'parquet':
        return models.write_parquet(folder / 'all.parquet', ROWS)
    if kind == 'tfrecord':
        return models.write_tfrecords(folder, ROWS, 3)
    writer = array_record.ArrayRecordWriter(str(folder / 'all.array_record'), 'group_size:1')
    for row in range(ROWS):
        writer.write(models.example(row))
    writer.close()
    return str(folder / 'all.array_record')


def planned(files, **other):
    paths = listing.expand(files)
    about = {'files': tuple((path, *listing.stamp(path)) for path in paths), 'file_format': listing.format_of(paths)}
    about |= other | ({'fingerprint': fingerprint(other['export'])} if 'export' in other else {})
    return dataclasses.replace(PLAN, **about)


def opened(model, files, key='id') -> Examples:
    return Examples(planned(files, key=key), model, None)


def rows_of(model, examples) -> list[dict]:
    found = []
    for rows in (range(0, 13), range(13, ROWS)):
        inputs, keys = examples.read(rows)
        columns = {'id': keys, **model.predict(inputs, len(rows))}
        found += [dict(zip(columns, row)) for row in zip(*map(np.ndarray.tolist, columns.values()))]
    return found


@pytest.mark.parametrize('kind', ['tfrecord', 'array_record', 'csv', 'parquet'])
def test_serialized_examples(tmp_path, of_estimator, kind):
    assert of_estimator.takes_serialized and of_estimator.name == 'serving_default'
    examples = opened(of_estimator, write(tmp_path, kind))
    assert examples.number == ROWS
    expected = [{**row, 'id': row['id'].encode(), 'text': row['text'].encode()} for row in models.expected(ROWS)]
    assert rows_of(of_estimator, examples) == expected


@pytest.mark.parametrize('kind', ['csv', 'parquet', 'tfrecord'])
def test_tensors_by_name(tmp_path, of_tensors, kind):
    if kind == 'csv':
        files = tmp_path / 'all.csv'
        files.write_text('n,id,x\n' + ''.join(f'{row},k{row},{row}\n' for row in range(ROWS)))
    elif kind == 'parquet':
        files = tmp_path / 'all.parquet'
        columns = {'id': [f'k{row}' for row in range(ROWS)], 'x': np.arange(float(ROWS)), 'n': np.arange(ROWS)}
        models.pyarrow.parquet.write_table(models.pa.table(columns), files)
    else:
        files = tmp_path / 'all.tfrecord'
        with tf.io.TFRecordWriter(str(files)) as writer:
            for row in range(ROWS):
                n = tf.train.Feature(int64_list=tf.train.Int64List(value=[row]))
                writer.write(models.example(row, n=n))
    found = rows_of(of_tensors, opened(of_tensors, str(files)))
    assert found == [{'id': b'k%d' % row, 'sum': 2.0 * row} for row in range(ROWS)]


NUMBERS = {
    tf.float64: [1700000000.123, 16777217.0, 0.1],
    tf.int32: [-(2**31), 2**31 - 1, 0],
    tf.int64: [2**53 + 1, -(2**63), 5],
    tf.uint8: [255, 0, 7],
    tf.bool: [1, 0, 1],
}


def taking(folder, dtype):
    """A model that gives back what it takes, as text where that is exact."""

    class Same(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], dtype, 'v')])
        def __call__(self, v):
            return {'same': tf.identity(v)}

    module = Same()
    tf.saved_model.save(module, str(folder), signatures={'serving_default': module.__call__})
    return signature.Model(str(folder))


def write_numbers(folder, kind, values):
    path = folder / f'numbers.{kind}'
    if kind == 'csv':
        path.write_text('v\n' + ''.join(f'{value!r}\n' for value in values))
    elif kind == 'parquet':
        models.pyarrow.parquet.write_table(models.pa.table({'v': values}), path)
    else:
        with tf.io.TFRecordWriter(str(path)) as writer:
            for value in values:
                example = tf.train.Example()
                feature = example.features.feature['v']
                (feature.float_list if isinstance(value, float) else feature.int64_list).value.append(value)
                writer.write(example.SerializeToString())
    return str(path)


@pytest.mark.parametrize('kind', ['csv', 'parquet', 'tfrecord'])
@pytest.mark.parametrize('dtype', NUMBERS, ids=lambda dtype: dtype.name)
def test_numbers_are_what_the_files_hold(tmp_path, dtype, kind):
    model, values = taking(tmp_path / 'model', dtype), NUMBERS[dtype]
    examples = Examples(planned(write_numbers(tmp_path, kind, values), key=''), model, None)
    inputs, _ = examples.read(range(len(values)))
    found = model.predict(inputs, len(values))['same']
    held = np.float32 if kind == 'tfrecord' and dtype == tf.float64 else dtype.as_numpy_dtype  # as a tf.Example has it
    assert found.dtype == dtype.as_numpy_dtype and found.tolist() == np.array(values, held).tolist()


@pytest.mark.parametrize('kind', ['csv', 'parquet', 'tfrecord'])
@pytest.mark.parametrize('dtype, value', [(tf.int32, 2**31), (tf.uint8, -1), (tf.uint8, 256), (tf.bool, 2)])
def test_a_number_that_the_model_cannot_take_is_named(tmp_path, dtype, value, kind):
    model = taking(tmp_path / 'model', dtype)
    examples = Examples(planned(write_numbers(tmp_path, kind, [1, value]), key=''), model, None)
    with pytest.raises(BadExample, match=f'numbers.{kind}, .*v'):
        examples.read(range(2))


def test_what_an_export_parses(of_estimator):
    found = of_estimator.features
    assert found['x'] == models.SPEC['x'] and found['words'] == models.SPEC['words']
    assert (found['n'].dtype, list(found['n'].shape), int(found['n'].default_value)) == (tf.int64, [], -1)


def test_a_key_of_whole_numbers(tmp_path, of_estimator):
    with tf.io.TFRecordWriter(str(tmp_path / 'all.tfrecord')) as writer:
        for row in range(ROWS):
            writer.write(models.example(row, number=tf.train.Feature(int64_list=tf.train.Int64List(value=[row]))))
    _, keys = opened(of_estimator, str(tmp_path / 'all.tfrecord'), key='number').read(range(3, 6))
    assert keys.tolist() == [3, 4, 5]


@pytest.mark.parametrize('kind', ['tfrecord', 'csv', 'parquet'])
def test_no_such_key(tmp_path, of_estimator, kind):
    with pytest.raises(Exception, match='(--key=nr: .*id|no column .nr.*--key=nr has to be one of them)'):
        opened(of_estimator, write(tmp_path, kind), key='nr')


def test_an_example_without_the_key(tmp_path, of_estimator):
    with tf.io.TFRecordWriter(str(tmp_path / 'all.tfrecord')) as writer:
        for row in range(ROWS):
            writer.write(models.example(row, **({'id': tf.train.Feature()} if row == 5 else {})))
    with pytest.raises(
        BadExample, match='all.tfrecord, record 5 at byte .*: Feature: id .* could not be found. .* key of --key=id'
    ):
        opened(of_estimator, str(tmp_path / 'all.tfrecord')).read(range(ROWS))


def test_a_record_of_other_bytes_beside_a_key(tmp_path, of_estimator):
    with tf.io.TFRecordWriter(str(tmp_path / 'all.tfrecord')) as writer:
        for row in range(ROWS):
            writer.write(b'\xff\xfe\xbb' if row == 5 else models.example(row))
    with pytest.raises(BadExample, match='all.tfrecord, record 5 at byte .*: Could not parse example input'):
        opened(of_estimator, str(tmp_path / 'all.tfrecord')).read(range(ROWS))


def test_an_example_on_which_the_model_fails(tmp_path, export):
    number = tf.train.Feature(int64_list=tf.train.Int64List(value=[1]))
    with tf.io.TFRecordWriter(str(tmp_path / 'all.tfrecord')) as writer:
        for row in range(ROWS):
            writer.write(models.example(row, **({'x': number} if row == 13 else {})))
    plan = planned(str(tmp_path / 'all.tfrecord'), export=export, rows_per_part=8)
    told = []
    with pytest.raises(BadExample, match='all.tfrecord, record 13 at byte .*: the signature serving_default fails .*x'):
        parts.predict(plan, str(tmp_path), 0, 1, lambda **fields: told.append(fields))
    assert told == [{'rows': ROWS, 'there': 0, 'signature': 'serving_default'}, {'done': 8}]
    assert (tmp_path / 'part-000000.csv').exists() and not (tmp_path / 'part-000001.csv').exists()


def test_the_message_of_a_model_that_fails_may_quote_bytes():
    model = types.SimpleNamespace(
        name='serving_default', predict=lambda inputs, rows: tf.strings.to_number(inputs['x'])
    )
    examples = types.SimpleNamespace(where='all.csv, row {}'.format)
    with pytest.raises(
        BadExample, match='all.csv, row 1: the signature serving_default fails on this example: .*not correctly'
    ):
        parts._outputs(model, examples, {'x': tf.constant([b'1', b'\xff'])}, range(2))


def test_the_message_of_a_graph_that_fails_has_the_line_that_tells_something():
    text = "Graph execution error:\n\nDetected at node 'x' defined at (most recent call last):\nNode: 'x'\nbad value\n"
    assert signature.first_line(tf.errors.InvalidArgumentError(None, None, text)) == 'bad value'


def test_a_damaged_file(tmp_path, of_estimator):
    path = tmp_path / 'all.csv'
    path.write_text('id,x,n,words\nk0,0,,\nk1,zero,,\n')
    with pytest.raises(BadExample, match=r"all.csv, line 3: column 'x' is 'zero', which is no float32"):
        opened(of_estimator, str(path)).read(range(2))


def of_text(folder):
    """A model that takes one text."""
    module = tf.Module()
    module.length = tf.function(
        lambda text: {'length': tf.strings.length(text)}, [tf.TensorSpec([None], tf.string, 'text')]
    )
    tf.saved_model.save(module, str(folder), signatures={'predict': module.length})
    return signature.Model(str(folder))


EMPTY = [
    ('id,text\nk0,\n', "line 2: column 'text' is empty, and the signature predict has no default for it: write a"),
    ('id,text\n,a\n', "line 2: column 'id' is empty, and --key=id needs a value in each row"),
]


@pytest.mark.parametrize('content, said', EMPTY)
def test_an_empty_field_for_which_there_is_no_default(tmp_path, content, said):
    (tmp_path / 'all.csv').write_text(content)
    with pytest.raises(BadExample, match=said) as error:
        opened(of_text(tmp_path / 'model'), str(tmp_path / 'all.csv')).read(range(1))
    assert 'default_value' not in str(error.value)
    assert ('Parquet files can hold an empty text' in str(error.value)) == ('text' in said)


def test_lines_without_a_header(tmp_path):
    (tmp_path / 'all.csv').write_text('1.0,2.0\n3.0,4.0\n')
    with pytest.raises(UsageError, match='no column .text.; .* the signature predict takes text: write such') as error:
        opened(of_text(tmp_path / 'model'), str(tmp_path / 'all.csv'), key='')
    assert 'one field, in quotes' in str(error.value) and 'FileSpec' not in str(error.value)


def test_an_output_that_is_not_of_the_examples(tmp_path):
    module = tf.Module()
    module.total = tf.function(lambda x: {'total': tf.reduce_sum(x)}, [tf.TensorSpec([None], tf.float32, 'x')])
    tf.saved_model.save(module, str(tmp_path), signatures={'predict': module.total})
    with pytest.raises(UsageError, match='the output total of the signature predict has shape .* for 2 examples'):
        signature.Model(str(tmp_path)).predict({'x': tf.zeros([2])}, 2)


def test_outputs_are_chosen(tmp_path):
    module = tf.Module()

    def three(x):
        return {'a': x, 'b': x + 1, 'total': tf.reduce_sum(x)}  # the last one has no value for each example

    module.three = tf.function(three, [tf.TensorSpec([None], tf.float32, 'x')])
    tf.saved_model.save(module, str(tmp_path), signatures={'predict': module.three})
    model = signature.Model(str(tmp_path), outputs=('b', 'a'))
    found = model.predict({'x': tf.zeros([2])}, 2)
    assert [(name, values.tolist()) for name, values in found.items()] == [('b', [1, 1]), ('a', [0, 0])]
    with pytest.raises(
        UsageError, match='--outputs=totl: .* no such output .did you mean total.*; it has a, b, total.'
    ):
        signature.Model(str(tmp_path), outputs=('totl',))


def test_signatures_that_cannot_be(tmp_path):
    folder = models.tensor_export(tmp_path / 'model')
    with pytest.raises(UsageError, match='--signature=classify: there is no such signature.*has serving_default'):
        signature.Model(folder, 'classify')
    (tmp_path / 'model' / 'saved_model.pb').write_bytes(b'something')
    with pytest.raises(UsageError, match='cannot be loaded as a SavedModel'):
        signature.Model(folder)


def test_every_format_of_files_has_its_types_and_is_written_for_the_tests():
    assert set(examples.HELD) == set(KNOWN_FORMATS) == {name.partition('.')[0] for name in written.FORMATS}
