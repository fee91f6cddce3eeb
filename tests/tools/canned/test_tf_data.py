"""Batches of an input_fn: recorded, kept in files, and handed to Keras."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.tools.migrate.canned import columns, dataset_file, describe, record
from estimator_trainer.tools.migrate.canned.in_keras_3 import tensors


def of(*batches):
    """An input_fn whose data set says no more than it must."""
    spec = tf.TensorSpec([None, None], tf.string), tf.TensorSpec([None], tf.int32)
    return lambda: tf.data.Dataset.from_generator(lambda: batches, output_signature=spec)


def test_widths_may_differ_between_batches_or_by_the_word_of_the_data_set():
    narrow, wide = (tf.constant([['a']]), tf.constant([1])), (tf.constant([['a', 'b']]), tf.constant([1]))
    recorded, spec = record.batches(of(narrow, wide), 5)
    assert tensors.spec(recorded)[0].shape.as_list() == [None, None]
    assert tensors.spec(recorded[:1])[0].shape.as_list() == [None, 1]
    features, labels = record.specs(recorded[:1], spec)
    assert features.shape.as_list() == [None, None] and labels.shape.as_list() == [None]


def raises():
    raise RuntimeError('a graph\nis needed')


@pytest.mark.parametrize(
    'input_fn, says',
    [
        (raises, 'raises RuntimeError: a graph; '),
        (lambda: tf.data.Dataset.from_tensors({'x': 1}), 'no labels'),
        (lambda: tf.data.Dataset.from_tensors(({'x': tf.ragged.constant([[1], []])}, 1)), 'gives a RaggedTensor'),
        (lambda: ({'x': 1}, 1), 'gives no tf.data.Dataset'),
    ],
)
def test_what_it_cannot_take_is_named(input_fn, says):
    with pytest.raises(ValueError, match=says):
        record.batches(input_fn, 3)


def test_every_dtype_and_every_name_comes_back_from_a_file(tmp_path):
    values = {
        'a#b/c d#': tf.constant([1.5, np.nan]),
        'table': np.arange(6, dtype=np.float64).reshape(3, 2),
        **{dtype: tf.cast([[0, 1]], dtype) for dtype in ('bool', 'uint8', 'int16', 'int32', 'int64', 'bfloat16')},
        'text': tf.constant([b'\xff', b'']),
    }
    sparse = tf.sparse.from_dense(tf.constant([['', 'w']]))
    tensors.save(str(tmp_path / 'x.npz'), {**values, 'sparse': sparse})
    found = tensors.load(str(tmp_path / 'x.npz'))
    assert found.keys() == {*values, 'sparse'}
    for name, value in values.items():
        assert found[name].dtype == value.dtype
        np.testing.assert_array_equal(found[name].numpy(), np.asarray(value))
    assert tf.sparse.to_dense(found['sparse']).numpy().tolist() == [[b'', b'w']]


@pytest.mark.parametrize('vocabulary', [None, ['p', 'q', 'r']])
def test_sparse_labels_become_an_indicator(vocabulary):
    head = {'kind': 'multi_label', 'label_vocabulary': vocabulary, 'weight_column': None}
    text = dataset_file.text({'features': {}, 'head': head, 'units': 3, 'labels_are_sparse': True})
    made = {}
    exec(compile(text, 'dataset.py', 'exec'), made)
    values = [0, 2, 1] if vocabulary is None else ['p', 'r', 'q']

    def labels(values):
        return tf.SparseTensor([[0, 0], [0, 1], [2, 0]], values, [3, 2])

    expected = [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    assert tf.function(made['to_labels'])(labels(values)).numpy().tolist() == expected
    if vocabulary:
        with pytest.raises(tf.errors.InvalidArgumentError, match='not in LABELS'):
            made['to_labels'](labels(['p', 'x', 'q']))


def test_tf_examples_are_parsed_as_the_columns_say():
    fc = tf.feature_column
    city = fc.categorical_column_with_hash_bucket('city', 9)
    made = [
        fc.bucketized_column(fc.numeric_column('age', default_value=30.0), [50.0]),
        fc.numeric_column('point', 3, default_value=[1, 2.5, 3]),
        fc.numeric_column('rooms', dtype=tf.int64),
        fc.embedding_column(city, 2),
        fc.crossed_column(['job', fc.categorical_column_with_identity('shift', 4)], 9),
        fc.indicator_column(fc.weighted_categorical_column(city, 'share')),
    ]
    parsed = columns.parse_spec(made, {'age': tf.int64, 'job': tf.string})
    head = {'kind': 'binary', 'label_vocabulary': None, 'weight_column': None}
    features = {name: {'dtype': 'string', 'parsed': one} for name, one in parsed.items()}
    text = dataset_file.text({'features': features, 'head': head, 'units': 1, 'labels_are_sparse': False})
    generated = {}
    exec(compile(text, 'dataset.py', 'exec'), generated)
    expected = fc.make_parse_example_spec(made)
    assert generated['PARSE_SPEC'].keys() == expected.keys()
    for name, spec in expected.items():
        made_of = generated['PARSE_SPEC'][name]
        assert type(made_of) is type(spec) and made_of.dtype == spec.dtype, name
        for part in ('shape', 'default_value'):
            assert np.array_equal(getattr(made_of, part, None), getattr(spec, part, None)), name
    assert (
        columns.parse_spec([fc.crossed_column(['a', 'b'], 9)], {'a': tf.int32, 'b': tf.string})['a']['dtype'] == 'int64'
    )
    assert describe._of_example(tf.bool) == 'int64' and describe._of_example(tf.bfloat16) == 'float32'
