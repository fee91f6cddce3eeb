"""Columns of every kind, as tf.feature_column and migrate describe them, and features for them."""

import numpy as np
import tensorflow as tf

from tests.tools.migrate.owned_modules import keras

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
