"""Trains the same small model with every kind of optimizer, and prints the weights of each."""

import json

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
STEPS = 8
hvd.init()
data = np.random.RandomState(0).normal(size=(2, STEPS, 3)).astype(np.float32)[hvd.rank()]


def loss(x, dense, rows):
    """Rank r uses the rows r and 3 of the embedding."""
    used = tf.gather(rows, [hvd.rank(), 3])
    return 0.5 * tf.reduce_sum(x * dense) ** 2 + 0.5 * tf.reduce_sum(used**2)


def in_graph(**settings):
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [3])
        first = float(1 + hvd.rank())  # rank 0 tells the others
        dense = v1.get_variable('dense', initializer=tf.fill([3], first))
        rows = v1.get_variable('rows', initializer=tf.fill([4, 2], first))
        step = v1.train.get_or_create_global_step()
        optimizer = hvd.DistributedOptimizer(v1.train.GradientDescentOptimizer(0.1), **settings)
        train = optimizer.minimize(loss(x, dense, rows), global_step=step)
        with v1.train.MonitoredTrainingSession(hooks=[hvd.BroadcastGlobalVariablesHook(0)]) as session:
            for each in data:
                session.run(train, {x: each})
            return [value.tolist() for value in session.run([dense, rows, step])]


def with_tape():
    dense, rows = tf.Variable(tf.ones([3]) + hvd.rank()), tf.Variable(tf.ones([4, 2]) + hvd.rank())
    hvd.broadcast_variables([dense, rows], root_rank=0)
    optimizer = tf.keras.optimizers.legacy.SGD(0.1)

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            value = loss(x, dense, rows)
        gradients = hvd.DistributedGradientTape(tape).gradient(value, [dense, rows])
        optimizer.apply_gradients(zip(gradients, [dense, rows]))

    for each in data:
        step(tf.constant(each))
    return [dense.numpy().tolist(), rows.numpy().tolist(), None]


def of_keras(optimizer, function=tf.function, **settings):
    dense, rows = tf.Variable(tf.ones([3])), tf.Variable(tf.ones([4, 2]))
    optimizer = hvd.DistributedOptimizer(optimizer, **settings)

    @function
    def step(x):
        with tf.GradientTape() as tape:
            value = loss(x, dense, rows)
        optimizer.apply_gradients(zip(tape.gradient(value, [dense, rows]), [dense, rows]))

    for each in data:
        step(tf.constant(each))
    return [dense.numpy().tolist(), rows.numpy().tolist(), int(optimizer.iterations)]


legacy = tf.keras.optimizers.legacy.SGD
found = {
    'v1': in_graph(),
    'v1, sparse_as_dense, fp16': in_graph(sparse_as_dense=True, compression=hvd.Compression.fp16),
    'v1, 4 passes': in_graph(backward_passes_per_step=4),
    'tape': with_tape(),
    'legacy keras': of_keras(legacy(0.1)),
    'legacy keras, 4 passes': of_keras(legacy(0.1), backward_passes_per_step=4),
    'eager legacy keras, 4 passes': of_keras(legacy(0.1), lambda step: step, backward_passes_per_step=4),
    'keras': of_keras(tf.keras.optimizers.SGD(0.1)),
}
print(json.dumps(found), flush=True)
