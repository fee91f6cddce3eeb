"""Heads, the other canned Estimators, early stopping, InMemoryEvaluatorHook, RNN-style columns."""

import json
import sys

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(4)
result = {}
config = tf.estimator.RunConfig(tf_random_seed=4)
x = tf.feature_column.numeric_column('x', [3])


def data(seed=1, rows=300):
    rng = np.random.RandomState(seed)
    features = rng.normal(size=(rows, 3)).astype(np.float32)
    labels = (features.sum(axis=1, keepdims=True) > 0).astype(np.int32)
    ids = np.array([str(i) for i in range(rows)])
    return tf.data.Dataset.from_tensor_slices(({'x': features, 'id': ids}, labels))


def train_fn():
    return data().repeat().batch(30)


def keep(name, metrics):
    result.update({f'{name}/{key}': float(value) for key, value in metrics.items()})


def own_head(features, labels, mode):
    logits = tf.compat.v1.layers.dense(features['x'], 1)
    head = tf.estimator.BinaryClassHead(thresholds=[0.5])
    optimizer = tf.keras.optimizers.legacy.Adam(0.05)
    optimizer.iterations = tf.compat.v1.train.get_or_create_global_step()
    return head.create_estimator_spec(
        features, mode, logits, labels, optimizer=optimizer, trainable_variables=tf.compat.v1.trainable_variables()
    )


estimator = tf.estimator.Estimator(own_head, sys.argv[1] + '/head', config)
in_memory = tf.estimator.experimental.InMemoryEvaluatorHook(
    estimator, lambda: data(2).batch(100), steps=2, every_n_iter=20
)
stop = tf.estimator.experimental.stop_if_higher_hook(
    estimator, 'accuracy', 1.5, run_every_secs=None, run_every_steps=10
)
estimator.train(train_fn, hooks=[in_memory, stop], max_steps=60)
keep('head', estimator.evaluate(lambda: data(2).batch(100)))

for name, canned in {
    'linear': tf.estimator.LinearClassifier([x], sys.argv[1] + '/linear', config=config),
    'dnn_v1': tf.compat.v1.estimator.DNNClassifier([8], [x], sys.argv[1] + '/dnn_v1', config=config),
}.items():
    canned.train(train_fn, max_steps=40)
    keep(name, canned.evaluate(lambda: data(2).batch(100)))

sdca = tf.estimator.LinearClassifier(
    [x],
    sys.argv[1] + '/sdca',
    config=config,
    optimizer=tf.estimator.experimental.LinearSDCA('id', symmetric_l2_regularization=1.0),
)
sdca.train(lambda: data().repeat().batch(300), max_steps=100)  # its threads race; the end is one
keep('sdca', sdca.evaluate(lambda: data(2).batch(100)))

words = tf.feature_column.sequence_categorical_column_with_hash_bucket('words', 20)


def sentences():
    rng = np.random.RandomState(6)
    text = np.array(['good', 'bad', 'a', 'the', 'film'])[rng.randint(0, 5, (200, 6))]
    labels = ((text == 'good').sum(1) > (text == 'bad').sum(1)).astype(np.int32)
    dataset = tf.data.Dataset.from_tensor_slices(({'words': text}, labels)).repeat().batch(20)
    return dataset.map(lambda f, y: ({'words': tf.sparse.from_dense(f['words'])}, y[:, None]))


rnn = tf.estimator.experimental.RNNClassifier(
    sequence_feature_columns=[tf.feature_column.embedding_column(words, 4)],
    units=[8],
    cell_type='gru',
    model_dir=sys.argv[1] + '/rnn',
    config=config,
)
rnn.train(sentences, max_steps=30)
keep('rnn', rnn.evaluate(lambda: sentences().take(5)))
json.dump(result, open(sys.argv[2], 'w'))
