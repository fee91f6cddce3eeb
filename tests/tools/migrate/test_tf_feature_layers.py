"""Layers of feature columns against tf.feature_column: every kind of column, on every kind of input, difference 0."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.tools.migrate import traced
from tests.tools.migrate.owned_modules import keras

import feature_columns  # isort: skip
import feature_layers  # isort: skip

fc = tf.feature_column
N = 200
R = np.random.default_rng(0)
WORDS = np.array(['a', 'b', 'c', '', 'unknown', 'é日', 'x' * 40], object)
VOCABULARY = ['a', 'b', 'c', 'é日']
BOUNDARIES = [0.0, 0.1, 1.5, 1.5000002, 3.0]


def sparse(values, width=3, rows=N):
    """About half of the places taken; some rows are empty."""
    taken = np.argwhere(R.random((rows, width)) < 0.5)
    return tf.SparseTensor(taken, tf.constant(values(len(taken))), [rows, width])


def words(n):
    return R.choice(WORDS, n)


def numbers(n):
    edges = [*BOUNDARIES, *np.nextafter(np.float32(BOUNDARIES), np.float32(-9)), np.inf, -np.inf, np.nan, -0.0]
    return np.concatenate([np.float32(edges), R.normal(1, 2, n)]).astype('f4')[:n]


def ids(n):
    return R.integers(-1, 7, n)


dense = {
    's': tf.constant(words(N)),
    's3': tf.constant(words(3 * N).reshape(N, 3)),
    'i': tf.constant(ids(N)),
    'i3': tf.constant(ids(3 * N).reshape(N, 3)),
    'x': tf.constant(numbers(N)),
    'x3': tf.constant(R.permutation(numbers(3 * N)).reshape(N, 3)),
    'x23': tf.constant(R.normal(size=(N, 2, 3)), tf.float64),
    'xi': tf.constant(R.integers(0, 5, N)),
    'w3': tf.constant(R.integers(-1, 4, (N, 3)) * 0.3, tf.float64),
}
several = sparse(words)
FEATURES = {
    **dense,
    'sp': several,
    'ip': sparse(ids),
    'wp': several.with_values(tf.constant(R.integers(-1, 4, len(several.values)) * 0.3, tf.float32)),
    'wi': several.with_values(tf.constant(R.integers(1, 4, len(several.values)))),
    'full': tf.constant(R.choice(VOCABULARY, (N, 3))),
    'wf': tf.constant(R.uniform(0.5, 2, (N, 3)), tf.float32),
}


def vocabulary(key, oov=0, default=-1):
    column = fc.categorical_column_with_vocabulary_list(key, VOCABULARY, default_value=default, num_oov_buckets=oov)
    return column, dict(
        kind='vocabulary', key=key, vocabulary=VOCABULARY, dtype='string', num_oov_buckets=oov, default_value=default
    )


def bucketized(key, shape=(1,)):
    column = fc.bucketized_column(fc.numeric_column(key, shape), BOUNDARIES)
    return column, dict(kind='bucketized', key=key, shape=list(shape), normalizer=None, boundaries=BOUNDARIES)


def hashed(key, dtype=tf.string):
    return fc.categorical_column_with_hash_bucket(key, 9, dtype), dict(kind='hash', key=key, buckets=9)


def identity(key, buckets=7, default=None):
    column = fc.categorical_column_with_identity(key, buckets, default)
    return column, dict(kind='identity', key=key, buckets=buckets, default_value=default)


def integers(key, oov):
    column = fc.categorical_column_with_vocabulary_list(key, [5, 3, 0], dtype=tf.int64, num_oov_buckets=oov)
    return column, dict(
        kind='vocabulary', key=key, vocabulary=[5, 3, 0], dtype='int64', num_oov_buckets=oov, default_value=-1
    )


def cross(*parts, hash_key=None):
    column = fc.crossed_column([p if isinstance(p, str) else p[0] for p in parts], 11, hash_key)
    keys = [p if isinstance(p, str) else p[1] for p in parts]
    return column, dict(kind='cross', keys=keys, buckets=11, hash_key=hash_key)


def weighted(inner, key, dtype=tf.float32):
    column = fc.weighted_categorical_column(inner[0], key, dtype)
    return column, dict(kind='weighted', column=inner[1], weight_key=key)


CATEGORICAL = {
    'hash of strings': hashed('s'),
    'hash of strings, dense multivalent': hashed('s3'),
    'hash of strings, sparse': hashed('sp'),
    'hash of integers': hashed('i', tf.int64),
    'hash of integers, sparse': hashed('ip', tf.int64),
    'vocabulary': vocabulary('s'),
    'vocabulary with a default': vocabulary('s3', default=2),
    'vocabulary with one bucket': vocabulary('sp', oov=1),
    'vocabulary with buckets': vocabulary('s3', oov=4),
    'vocabulary of integers': integers('i3', 0),
    'vocabulary of integers with buckets': integers('ip', 3),
    'identity': identity('i'),
    'identity, sparse': identity('ip'),
    'identity with a default': identity('i3', 4, 2),
    'bucketized': bucketized('x'),
    'bucketized, three numbers': bucketized('x3', (3,)),
    'bucketized integers': bucketized('xi'),
    'cross of strings': cross('s', 's3'),
    'cross with a hash key': cross('s', 'i', hash_key=7),
    'cross, sparse': cross('sp', 's3'),
    'cross of columns': cross(bucketized('x'), vocabulary('s'), identity('ip'), 's3'),
    'cross with one number of three': cross(bucketized('x3', (3,)), 's'),
    'weighted, sparse': weighted(vocabulary('sp'), 'wp'),
    'weighted by integers': weighted(hashed('sp'), 'wi', tf.int64),
    'weighted, dense': weighted(vocabulary('full'), 'wf'),
}


def equal(found, wanted):
    found, wanted = np.asarray(found), np.asarray(wanted)
    return found.dtype == wanted.dtype and found.shape == wanted.shape and found.tobytes() == wanted.tobytes()


def directly(call):
    return call


def called(layer, how=directly):
    """(The layer, what it gives in a model), after Keras has written it down and rebuilt it."""
    inputs = {}
    for key in layer.keys:
        value = FEATURES[key]
        is_sparse = isinstance(value, tf.SparseTensor)
        inputs[key] = keras.Input(value.shape[1:], dtype=value.dtype.name, name=key, sparse=is_sparse)
    again = type(layer).from_config(layer.get_config())
    model = keras.Model(inputs, again(inputs))
    again.set_weights([R.normal(size=w.shape) for w in again.weights])
    return again, how(model)({key: FEATURES[key] for key in layer.keys})


def dense_features(column, weights=(), how=directly):
    layer = tf.keras.layers.DenseFeatures([column])
    layer(FEATURES)
    layer.set_weights(weights)
    return how(layer)(FEATURES)


def linear_model(columns, units, combiner, weights, how=directly):
    """Of an Estimator, whose bias is 0."""
    from tensorflow_estimator.python.estimator.canned import linear

    model = linear.LinearModel(columns, units, combiner)
    model(FEATURES)
    model.set_weights([*weights, np.zeros(units)])
    return how(model)(FEATURES)


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
