"""tf.keras.estimator.model_to_estimator: trained, evaluated, predicted from a generator."""

import json
import sys

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(11)
inputs = tf.keras.Input((6,), name='x')
hidden = tf.keras.layers.Dense(16, activation='relu')(inputs)
hidden = tf.keras.layers.BatchNormalization()(hidden)
model = tf.keras.Model(inputs, tf.keras.layers.Dense(3)(hidden))
model.compile(
    tf.keras.optimizers.legacy.Adam(0.01),
    tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=[tf.keras.metrics.SparseCategoricalAccuracy(name='accuracy')],
)
estimator = tf.keras.estimator.model_to_estimator(
    model, model_dir=sys.argv[1], config=tf.estimator.RunConfig(tf_random_seed=2)
)


def rows(count, seed):
    rng = np.random.RandomState(seed)
    x = rng.normal(size=(count, 6)).astype(np.float32)
    return x, np.argmax(x[:, :3], axis=1).astype(np.int32)


def train_fn():
    x, y = rows(800, 1)
    return tf.data.Dataset.from_tensor_slices(({'x': x}, y)).repeat().batch(40)


def examples():
    yield from rows(100, 3)[0]


def predict_fn():
    return (
        tf.data.Dataset.from_generator(examples, output_signature=tf.TensorSpec([6], tf.float32))
        .batch(10)
        .map(lambda x: {'x': x})
    )


estimator.train(train_fn, max_steps=100)
x, y = rows(300, 2)
metrics = estimator.evaluate(lambda: tf.data.Dataset.from_tensor_slices(({'x': x}, y)).batch(100))
logits = [list(row.values())[0] for row in estimator.predict(predict_fn)]
assert len(logits) == 100
json.dump(
    {'logits': float(np.abs(logits).sum()), **{name: float(value) for name, value in metrics.items()}},
    open(sys.argv[2], 'w'),
)
