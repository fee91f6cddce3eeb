"""Trains to a given step with Adam, from whatever checkpoint model_dir has."""

import json
import sys

import numpy as np
import tensorflow as tf

model_dir, out, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])


def input_fn():
    rng = np.random.RandomState(1)
    x = rng.normal(size=(32, 5)).astype(np.float32)  # every step sees the same
    y = (x[:, :1] * 2 - x[:, 1:2]).astype(np.float32)
    return tf.data.Dataset.from_tensors(({'x': x}, y)).repeat()


def model_fn(features, labels, mode):
    glorot = tf.keras.initializers.GlorotUniform
    net = tf.keras.layers.Dense(8, 'tanh', kernel_initializer=glorot(seed=1))(features['x'])
    output = tf.keras.layers.Dense(1, kernel_initializer=glorot(seed=2))(net)
    loss = tf.compat.v1.losses.mean_squared_error(labels, output)
    optimizer = tf.compat.v1.train.AdamOptimizer(0.01)
    return tf.estimator.EstimatorSpec(
        mode, {'y': output}, loss, optimizer.minimize(loss, tf.compat.v1.train.get_global_step())
    )


estimator = tf.estimator.Estimator(model_fn, model_dir, tf.estimator.RunConfig(tf_random_seed=5))
estimator.train(input_fn, max_steps=steps)
metrics = estimator.evaluate(input_fn, steps=1)
slots = {
    name: float(np.abs(estimator.get_variable_value(name)).sum())
    for name in estimator.get_variable_names()
    if 'Adam' in name
}
assert len(slots) == 8, slots
json.dump({**slots, **{name: float(value) for name, value in metrics.items()}}, open(out, 'w'))
