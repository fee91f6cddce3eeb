"""data.batch, and evaluations of it: dense, sparse and ragged features, scalars, replicas without examples."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.data import batch
from estimator_trainer.evaluation import exact_evaluation
from estimator_trainer.jobs import losses

v1 = tf.compat.v1


def examples(count=5):
    """The whole of a small data set: each example has features of every kind."""
    rows = [list(range(number % 3)) for number in range(count)]
    return {
        'a scale that all share': tf.constant(0.5),
        'dense': tf.reshape(tf.range(count * 2, dtype=tf.float32), [count, 2]),
        'nested': {
            'ragged': tf.ragged.constant(rows, tf.float32),
            'pairs': tf.ragged.constant([[[1.0, 2.0]] * len(row) for row in rows], inner_shape=(2,)),
        },
        'sparse': tf.sparse.from_dense([[number % 2, number, 0.0] for number in range(count)]),
        'text': tf.constant(['x'] * count),
    }


def shape_of(tensor):
    dense = (
        tensor
        if isinstance(tensor, tf.Tensor)
        else (tf.sparse.to_dense(tensor) if isinstance(tensor, tf.SparseTensor) else tensor.to_tensor())
    )
    return dense.shape.as_list()


def test_size():
    assert int(batch.size(None, examples(5))) == 5
    assert int(batch.size(tf.zeros([3]), examples(5))) == 3  # the labels tell
    assert int(batch.size(tf.constant(1.0), examples(4))) == 4
    assert int(batch.size(None, {'x': tf.constant(1.0)})) == 1
    assert int(batch.size(examples(4)['sparse'])) == int(batch.size(examples(4)['nested']['ragged'])) == 4


@tf.function(input_signature=[tf.TensorSpec([]), tf.TensorSpec(None), tf.TensorSpec([None, 2])])
def _of_unknown_shapes(scalar, unknown, known):
    return batch.size({'a': scalar, 'b': unknown}), batch.size({'a': unknown, 'b': known})


def test_size_where_a_shape_is_unknown():
    sizes = _of_unknown_shapes(tf.constant(1.0), tf.zeros([6, 2]), tf.zeros([7, 2]))
    assert [int(size) for size in sizes] == [6, 7]


def test_size_of_arrays():
    assert int(batch.size(np.zeros([6, 2]), {'x': np.zeros([6])})) == 6
    assert int(batch.size(None, {'scale': np.float32(2.0), 'x': np.zeros([4, 1])})) == 4
    assert int(batch.size(None, {'scale': 2.0, 'x': np.array(['a', 'b'])})) == 2
    assert batch.static_size({'x': np.zeros([3, 1])}) == 3


@pytest.mark.parametrize('labels', [None, {'y': None}], ids=str)
def test_nothing_in_the_place_of_a_tensor(labels):
    none, nothing = batch.without_examples((examples(5), labels))
    assert (int(batch.size(nothing, none)), nothing) == (0, labels)
    more, nothing = batch.with_zeros((examples(5), labels), tf.constant(2))
    assert (int(batch.size(nothing, more)), nothing) == (7, labels)


Pair = collections.namedtuple('Pair', 'features labels')
FORMS = {
    'features alone': lambda x: {'x': x},
    'no labels': lambda x: ({'x': x}, None),
    'a None among the labels': lambda x: ({'x': x}, {'y': x, 'z': None}),
    'a tuple of one': lambda x: ({'x': x},),
    'a named tuple': lambda x: Pair({'x': x}, None),
    'weights': lambda x: (x, x, x),
}


@pytest.mark.parametrize('form', FORMS.values(), ids=FORMS)
@pytest.mark.parametrize('replicas', [1, 2, 3])
def test_an_evaluation_on_replicas_has_empty_batches_of_the_same_form(form, replicas):
    batches = tf.data.Dataset.range(5).batch(2).map(form)
    found = list(exact_evaluation.for_all(batches, replicas))
    sizes = [int(batch.size(each)) for each in found]
    assert sizes == [2, 2, 1, *[0] * (replicas - 1)]
    for each in found:
        tf.nest.assert_same_structure(each, found[0])


def test_without_examples():
    none = batch.without_examples(examples(5))
    assert int(batch.size(None, none)) == 0
    assert shape_of(none['dense']) == [0, 2] and shape_of(none['sparse']) == [0, 3]
    assert shape_of(none['nested']['ragged'])[0] == 0 and float(none['a scale that all share']) == 0.5


@pytest.mark.parametrize('before', [0, 2])
def test_with_zeros(before):
    given = examples(before) if before else batch.without_examples(examples(5))
    more = batch.with_zeros(given, tf.constant(2))
    assert {int(batch.size(tensor)) for tensor in tf.nest.flatten(more) if tensor.shape.rank} == {before + 2}
    assert more['dense'][before:].numpy().tolist() == [[0, 0], [0, 0]]
    assert more['nested']['ragged'][before:].to_list() == [[0], [0]]
    assert more['nested']['pairs'][before:].to_list() == [[[0, 0]], [[0, 0]]]
    assert tf.sparse.to_dense(more['sparse'])[before:].numpy().tolist() == [[0, 0, 0]] * 2
    assert more['text'][before:].numpy().tolist() == [b'', b'']


@pytest.mark.parametrize('count, replicas, batches', [(6, 1, 3), (6, 2, 4), (5, 3, 5)])
def test_each_replica_gets_a_batch_in_the_last_step(count, replicas, batches):
    features, labels = examples(count), tf.range(count)
    features.pop('a scale that all share')
    data = (
        tf.data.Dataset.from_tensor_slices((features, labels))
        .batch(2)
        .map(lambda features, labels: ({**features, 'scale': tf.constant(0.5)}, labels))
    )
    sizes = [int(batch.size(given)) for _, given in exact_evaluation.for_all(data, replicas)]
    assert len(sizes) == batches and sum(sizes) == count
    alone = exact_evaluation.for_all(data.map(lambda features, labels: features), replicas)
    assert [int(batch.size(given)) for given in alone] == sizes


def model_fn(features, labels, mode):
    """A mean over the examples' numbers; its loss is that of a batch, not a number for none."""
    sums = (
        tf.reduce_sum(features['dense'], 1)
        + tf.sparse.reduce_sum(features['sparse'], 1)
        + tf.reduce_sum(features['nested']['ragged'], 1)
    )
    loss = tf.reduce_mean(features['scale'] * sums)
    return tf.estimator.EstimatorSpec(
        mode,
        loss=loss,
        train_op=v1.train.get_global_step().assign_add(1),
        eval_metric_ops={'seen': v1.metrics.mean(tf.cast(labels, tf.float32))},
    )


@pytest.mark.parametrize('count', [5, 6])
def test_an_evaluation_on_replicas_is_that_of_one_process(tmp_path, two, count):
    """Batches of 2 on two replicas: 2 + 2 and 1 + 0, or 2 + 2 and 2 + 0."""

    def input_fn(replicas):
        features, labels = examples(count), tf.range(count)
        features.pop('a scale that all share')
        data = (
            tf.data.Dataset.from_tensor_slices((features, labels))
            .batch(2)
            .map(lambda features, labels: ({**features, 'scale': tf.constant(0.5)}, labels))
        )
        return exact_evaluation.for_all(data, replicas)

    results = []
    for strategy in (None, two):
        config = tf.estimator.RunConfig(str(tmp_path), eval_distribute=strategy)
        estimator = tf.estimator.Estimator(exact_evaluation.with_exact_loss(model_fn), config=config)
        if strategy is None:
            estimator.train(lambda: input_fn(1), max_steps=1)
        results.append(estimator.evaluate(lambda: input_fn(2 if strategy else 1)))
    features = examples(count)
    sums = (
        tf.reduce_sum(features['dense'], 1)
        + tf.sparse.reduce_sum(features['sparse'], 1)
        + tf.reduce_sum(features['nested']['ragged'], 1)
    )
    for result in results:
        assert result['loss'] == pytest.approx(float(tf.reduce_mean(sums)) / 2, rel=1e-6)
        assert result['seen'] == pytest.approx((count - 1) / 2)


def test_a_model_computes_one_example_of_zeros_for_none():
    def model(features, training):
        tf.debugging.assert_positive(batch.size(features), 'a model that is given no example')
        return features['dense'] + tf.sparse.to_dense(features['sparse'])[:, :2]

    features = examples(6)
    features.pop('a scale that all share')
    data = exact_evaluation.for_all(tf.data.Dataset.from_tensor_slices(features).batch(2), 2)
    outputs = list(data.map(lambda given: losses.outputs_of(model, given, training=False)))
    assert [len(output) for output in outputs] == [2, 2, 2, 0]
    expected = features['dense'] + tf.sparse.to_dense(features['sparse'])[:, :2]
    np.testing.assert_array_equal(tf.concat(outputs, 0), expected)


@pytest.mark.parametrize('is_static', [True, False])
def test_outputs_that_are_not_one_row_for_each_example_stay_whole(is_static):
    def model(features, training):
        views = tf.concat([features['x'], -features['x']], 0)
        return {'views': views, 'codebook': tf.ones([5, 1]), 'scale': tf.constant(2.0), 'y': features['x']}

    data = tf.data.Dataset.from_tensor_slices({'x': tf.reshape(tf.range(6.0), [6, 1])}).batch(2, is_static)
    if not is_static:
        data = exact_evaluation.for_all(data, 2)
    outputs = list(data.map(lambda given: losses.outputs_of(model, given, training=True)))
    rows = [[len(output[name]) for name in ('views', 'codebook', 'y')] for output in outputs]
    assert rows == 3 * [[4, 5, 2]] + ([] if is_static else [[0, 5, 0]])
    np.testing.assert_array_equal(outputs[1]['views'][:, 0], [2, 3, -2, -3])
