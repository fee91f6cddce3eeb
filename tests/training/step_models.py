"""Models of which the tests of step_loop make a step."""

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import function

v1 = tf.compat.v1


def dropout(features):
    weights = v1.get_variable('weights', [8, 16])
    return tf.nn.dropout(features @ weights, rate=0.3)


def dropout_in_a_legacy_function(features):
    weights = v1.get_variable('weights', [8, 16])
    return (
        function.Defun(tf.float32, func_name='legacy')(lambda x: tf.nn.dropout(x, rate=0.3, seed=4))(features) @ weights
    )


def embedding(features):
    table = v1.get_variable('table', [50, 16])
    ids = tf.cast(tf.abs(features * 40) % 50, tf.int64)
    return tf.reduce_mean(tf.nn.embedding_lookup(table, ids), 1)


def with_a_table_and_a_condition(features):
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.range(10, dtype=tf.int64), tf.range(10.0)), default_value=-1.0
    )
    weights = v1.get_variable('weights', [8, 16])
    scaled = tf.cond(
        tf.reduce_sum(features) > 0, lambda: features * table.lookup(tf.constant(3, tf.int64)), lambda: features
    )
    return scaled @ weights


def with_moving_averages(features):
    weights = v1.get_variable('weights', [8, 16])
    return tf.keras.layers.BatchNormalization()(features @ weights, training=True)


def with_a_loop_and_python(features):
    weights = v1.get_variable('weights', [8, 16])
    doubled = tf.numpy_function(lambda x: x * np.float32(2), [features], tf.float32)
    doubled.set_shape(features.shape)
    return tf.while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, tf.tanh(x)), (0, doubled @ weights))[1]


def with_a_loop_that_reads_a_variable(features):
    """A While returns the handles that it captures."""
    weights = v1.get_variable('weights', [8, 16])
    return tf.map_fn(lambda row: tf.tanh(row[None] @ weights)[0], features)


def with_nested_loops(features):
    weights = v1.get_variable('weights', [8, 8])

    def outer(n, x):
        inner = tf.while_loop(lambda m, y: m < 2, lambda m, y: (m + 1, tf.tanh(y @ weights)), (0, x))[1]
        return n + 1, tf.cond(tf.reduce_sum(inner) > 0, lambda: inner @ weights, lambda: inner)

    return tf.while_loop(lambda n, x: n < 2, outer, (0, features))[1]


def recurrent(features):
    return tf.keras.layers.LSTM(4)(tf.reshape(features, [4, 4, 2]))


def with_a_default_of_the_batch(features):
    weights = v1.get_variable('weights', [8, 16])
    return v1.placeholder_with_default(2.0 * features - 1.0, features.shape) @ weights


def with_a_chosen_variable(features):
    one, other = v1.get_variable('one', [8, 16]), v1.get_variable('other', [8, 16])
    handle = tf.cond(tf.reduce_sum(features) > 0, lambda: one.handle, lambda: other.handle)
    return features @ tf.ensure_shape(tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32), [8, 16])


def with_inner_updates(features):
    weights, critic = v1.get_variable('weights', [8, 16]), v1.get_variable('critic', [], trainable=False)

    def update(n):
        with tf.control_dependencies([critic.assign_add(tf.reduce_mean(features))]):
            return n + 1

    with tf.control_dependencies(tf.nest.flatten(tf.while_loop(lambda n: n < 5, update, (0,)))):
        return features @ weights * critic.read_value()


def with_an_array_of_one_step(features):
    weights = v1.get_variable('weights', [8, 16])
    array = tf.TensorArray(tf.float32, size=2).write(0, features @ weights).write(1, features @ weights * 2.0)
    return array.stack()


def with_a_queue(features):
    weights = v1.get_variable('weights', [8, 16])
    queue = tf.queue.FIFOQueue(10, [tf.float32], [features.shape])
    with tf.control_dependencies([queue.enqueue(features)]):
        return queue.dequeue() @ weights


MODELS = [
    dropout,
    dropout_in_a_legacy_function,
    embedding,
    with_a_table_and_a_condition,
    with_moving_averages,
    with_a_loop_and_python,
    with_a_loop_that_reads_a_variable,
    with_nested_loops,
    recurrent,
    with_a_default_of_the_batch,
    with_a_chosen_variable,
    with_inner_updates,
    with_an_array_of_one_step,
    with_a_queue,
]
