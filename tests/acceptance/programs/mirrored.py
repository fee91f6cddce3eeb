"""A custom Estimator under MirroredStrategy, with input_context and distributed evaluation."""

import json
import sys

import numpy as np
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices('CPU')[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(['/cpu:0', '/cpu:1'], cross_device_ops=tf.distribute.ReductionToOneDevice())


def input_fn(mode, input_context=None):
    rng = np.random.RandomState(1)
    x = rng.normal(size=(512, 5)).astype(np.float32)
    y = (x[:, :1] * 2 - x[:, 1:2]).astype(np.float32)
    dataset = tf.data.Dataset.from_tensor_slices(({'x': x}, y))
    if input_context:
        dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return (dataset.repeat() if mode == 'train' else dataset).batch(32)


def model_fn(features, labels, mode):
    glorot = tf.keras.initializers.GlorotUniform
    net = tf.keras.layers.Dense(16, 'tanh', kernel_initializer=glorot(seed=1))(features['x'])
    output = tf.keras.layers.Dense(1, kernel_initializer=glorot(seed=2))(net)
    loss = tf.reduce_mean(tf.square(labels - output))
    optimizer = tf.compat.v1.train.AdamOptimizer(0.01)
    return tf.estimator.EstimatorSpec(
        mode,
        {'y': output},
        loss,
        optimizer.minimize(loss, tf.compat.v1.train.get_global_step()),
        eval_metric_ops={'rmse': tf.compat.v1.metrics.root_mean_squared_error(labels, output)},
    )


estimator = tf.estimator.Estimator(
    model_fn, sys.argv[1], tf.estimator.RunConfig(tf_random_seed=9, train_distribute=strategy, eval_distribute=strategy)
)
estimator.train(input_fn, max_steps=50)
metrics = estimator.evaluate(input_fn)
json.dump({name: float(value) for name, value in metrics.items()}, open(sys.argv[2], 'w'))
