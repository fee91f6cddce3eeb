"""Layers of feature columns against tf.feature_column: every kind of column, on every kind of input, difference 0."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.tools.migrate import traced
from tests.tools.migrate.feature_examples import (
    CATEGORICAL,
    FEATURES,
    VOCABULARY,
    N,
    R,
    bucketized,
    called,
    dense_features,
    equal,
    fc,
    hashed,
    identity,
    linear_model,
    several,
    vocabulary,
    weighted,
)

import feature_columns  # isort: skip
import feature_layers  # isort: skip


@pytest.mark.parametrize('column, json', CATEGORICAL.values(), ids=CATEGORICAL)
def test_ids(column, json):
    from tensorflow.python.feature_column import feature_column_v2

    wanted = column.get_sparse_tensors(feature_column_v2.FeatureTransformationCache(FEATURES), None)
    found, weights = feature_columns.make(json).ids(FEATURES)
    values = tf.cast(wanted.id_tensor.values, tf.int64)  # those of a bucketized column are int32
    assert equal(found.indices, wanted.id_tensor.indices) and equal(found.values, values)
    assert equal(found.dense_shape, wanted.id_tensor.dense_shape)
    assert len(set(found.values.numpy())) > 2
    assert (weights is None) == (wanted.weight_tensor is None)
    if weights is not None:
        assert equal(weights.values, wanted.weight_tensor.values)


@pytest.mark.parametrize('column, json', CATEGORICAL.values(), ids=CATEGORICAL)
def test_indicator(column, json):
    _, found = called(feature_layers.DenseColumn(dict(kind='indicator', column=json)))
    assert equal(found, dense_features(fc.indicator_column(column)))


COMBINERS = [('mean', None), ('sqrtn', 0.7), ('sum', 1.5)]
IN_TURN = [(*pair, *COMBINERS[i % 3]) for i, pair in enumerate(CATEGORICAL.values())]
ALL = [(*CATEGORICAL[name], *how) for name in ('hash of strings, sparse', 'weighted, sparse') for how in COMBINERS]


@pytest.mark.parametrize('column, json, combiner, max_norm', IN_TURN + ALL)
def test_embedding(column, json, combiner, max_norm):
    layer, found = called(feature_layers.EmbeddingColumn(json, 4, combiner, max_norm))
    assert equal(
        found, dense_features(fc.embedding_column(column, 4, combiner, max_norm=max_norm), layer.get_weights())
    )


@pytest.mark.parametrize('column, json, combiner, _', IN_TURN)
def test_linear(column, json, combiner, _):
    layer, found = called(feature_layers.LinearColumn(json, 2, combiner))
    assert equal(found, linear_model([column], 2, combiner, layer.get_weights()))


NUMERIC = {
    'one number': ('x', (1,), None),
    'three': ('x3', (3,), None),
    'two by three, float64': ('x23', (2, 3), None),
    'integers': ('xi', (1,), None),
    'normalized': ('x', (1,), lambda v: (v - 40.1) / 12.7),
    'normalized in float64': ('x3', (3,), lambda v: tf.math.log1p(tf.abs(tf.cast(v, tf.float64) - 0.25)) / 3.7),
    'normalized, from float64': ('x23', (2, 3), lambda v: tf.exp(v / 3.3) - 0.7),
    'normalized integers': ('xi', (1,), lambda v: tf.sqrt(tf.cast(v, tf.float32))),
    'normalized by a function of TensorFlow': ('x', (1,), tf.function(lambda v: tf.where(v > 1, v, v * 0.3))),
}


@pytest.fixture(params=NUMERIC.values(), ids=NUMERIC)
def numeric(request):
    """A numeric column, and its JSON."""
    key, shape, normalizer = request.param
    json = dict(kind='numeric', key=key, shape=list(shape), normalizer=None)
    if normalizer:
        json['normalizer'] = traced.normalizer(normalizer, [None, *shape], FEATURES[key].dtype)
    return fc.numeric_column(key, shape, normalizer_fn=normalizer), json


# In a graph, where an Estimator's functions run: TensorFlow rewrites divisions by constants there, which changes
# roundings.
def test_numeric(numeric):
    column, json = numeric
    _, found = called(feature_layers.DenseColumn(json), tf.function)
    assert len(set(found.numpy().ravel())) > 4
    assert equal(found, dense_features(column, how=tf.function))


def test_numeric_in_a_linear_model(numeric):
    column, json = numeric
    layer, found = called(feature_layers.LinearColumn(json, 2), tf.function)
    assert equal(found, linear_model([column], 2, 'sum', layer.get_weights(), tf.function))


def test_bucketized_as_numbers():
    for column, json in (bucketized('x'), bucketized('x3', (3,)), bucketized('xi')):
        _, found = called(feature_layers.DenseColumn(json))
        assert equal(found, dense_features(column))


def test_weights_in_float64():
    (column, json) = weighted(hashed('s3'), 'w3')
    features = {'s3': tf.constant(R.choice(VOCABULARY, (N, 3))), 'w3': FEATURES['w3'] + 0.9}
    layer = feature_layers.EmbeddingColumn(json, 4)
    layer(features)
    layer.set_weights([R.normal(size=(9, 4))])
    reference = tf.keras.layers.DenseFeatures([fc.embedding_column(column, 4)])
    reference(features)
    reference.set_weights(layer.get_weights())
    assert equal(layer(features), reference(features))


def test_shared_embeddings():
    (first, json), (second, other) = vocabulary('sp'), vocabulary('s3')
    layer, found = called(feature_layers.SharedEmbeddingColumns([json, other], 4, 'sqrtn', 0.7))
    assert layer.keys == ['sp', 's3'] and len(layer.weights) == 1
    (weights,), s3 = layer.get_weights(), FEATURES['s3'].numpy()
    fed = tf.compat.v1.SparseTensorValue(
        *(part.numpy() for part in (several.indices, several.values, several.dense_shape))
    )
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:  # TensorFlow has them in graphs only
        columns = fc.shared_embeddings([first, second], 4, 'sqrtn', max_norm=0.7)
        features = {'sp': tf.compat.v1.sparse_placeholder(tf.string), 's3': tf.constant(s3)}
        wanted = [tf.compat.v1.keras.layers.DenseFeatures([column])(features) for column in columns]
        session.run([tf.compat.v1.global_variables_initializer(), tf.compat.v1.tables_initializer()])
        (variable,) = tf.compat.v1.trainable_variables()
        variable.load(weights, session)
        assert all(map(equal, found, session.run(wanted, {features['sp']: fed})))


def test_sum_and_bias_is_the_linear_model():
    pairs = sorted([vocabulary('s3'), hashed('sp'), bucketized('x'), identity('ip')], key=lambda pair: pair[0].name)
    layers, parts = zip(*(called(feature_layers.LinearColumn(json, 3)) for _, json in pairs))
    add = feature_layers.SumAndBias()
    add.build([(None, 3)] * 4)
    add.bias.assign([0.1, 0.2, 0.3])
    from tensorflow_estimator.python.estimator.canned import linear

    model = linear.LinearModel([column for column, _ in pairs], 3)
    model(FEATURES)
    model.set_weights([*(layer.get_weights()[0] for layer in layers), add.bias.numpy()])
    assert equal(tf.function(add)(list(parts)), tf.function(model)(FEATURES))


def test_gradients_are_those_of_the_rows():
    (column, json) = hashed('sp')
    layer, _ = called(feature_layers.EmbeddingColumn(json, 4))
    reference = tf.keras.layers.DenseFeatures([fc.embedding_column(column, 4)])
    reference(FEATURES)
    reference.set_weights(layer.get_weights())
    gradients = []
    for call, variable in ((layer, layer.embedding_weights.value), (reference, reference.trainable_variables[0])):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(call({'sp': FEATURES['sp']}) ** 2)
        gradients.append(tape.gradient(loss, variable))
    assert all(isinstance(gradient, tf.IndexedSlices) for gradient in gradients)
    assert equal(gradients[0].values, gradients[1].values) and equal(gradients[0].indices, gradients[1].indices)


def test_baseline():
    layer = feature_layers.BaselineLogits(3)
    features = {'x3': FEATURES['x3'], 'sp': FEATURES['sp']}
    layer(features)
    layer.bias.assign([0.1, 0.2, 0.3])
    assert equal(layer(features), np.float32([[0.1, 0.2, 0.3]] * N))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(features))
    assert np.asarray(tape.gradient(loss, layer.bias.value)).tolist() == [N] * 3


@pytest.mark.parametrize(
    'make, text',
    [
        (lambda: feature_columns.make(dict(kind='sequence', key='s')), "kind 'sequence'"),
        (lambda: feature_layers.DenseColumn(hashed('s')[1]), 'is not dense'),
        (lambda: feature_layers.LinearColumn(dict(kind='indicator', column=hashed('s')[1])), 'without bias'),
        (lambda: feature_layers.SharedEmbeddingColumns([hashed('s')[1], vocabulary('s')[1]], 2), 'equal numbers'),
        (lambda: feature_columns.make(dict(kind='numeric', key='sp')).dense(FEATURES), "'sp' needs a dense tensor"),
    ],
)
def test_what_cannot_be_is_refused(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def with_a_variable(value):
    return value * tf.compat.v1.get_variable('scale', initializer=2.0)


@pytest.mark.parametrize(
    'function, text',
    [
        (with_a_variable, r'with_a_variable depends on more than its argument: the operation .* \(VarHandleOp\)'),
        (lambda v: v + tf.random.normal([1]), 'RandomStandardNormal'),
        (lambda v: tf.compat.v1.py_func(np.sin, [v], tf.float32), 'PyFunc'),
        (lambda v: (v, v), 'must give one tensor'),
    ],
)
def test_normalizers_that_cannot_be_traced(function, text):
    with pytest.raises(ValueError, match=text):
        traced.normalizer(function, [None, 1], tf.float32)


def test_a_traced_function_may_ignore_its_argument():
    from traced_function import TracedFunction

    constant = TracedFunction(**traced.normalizer(functools.partial(tf.fill, [2, 1]), [], tf.float32))
    ones = TracedFunction(**traced.normalizer(lambda v: tf.ones([2, 1]), [None, 1], tf.float32))
    assert constant(3.0).numpy().tolist() == [[3.0], [3.0]] and ones([[5.0]]).numpy().tolist() == [[1.0], [1.0]]
