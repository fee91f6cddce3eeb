"""training.step_order: which variables a step reads beside their update."""

import pytest
import tensorflow as tf
from tensorflow.python.framework import function

from estimator_trainer.training import step_order

v1 = tf.compat.v1


def variable(name, value=1.0, trainable=True):
    return v1.get_variable(name, initializer=value, trainable=trainable, use_resource=True)


def descend(loss, rate=0.1, variables=None, step=None):
    return v1.train.GradientDescentOptimizer(rate).minimize(loss, step, var_list=variables)


def of_adam(features):
    loss = tf.reduce_mean((features * variable('w') + variable('b')) ** 2) + tf.nn.l2_loss(variable('v'))
    rate = v1.train.exponential_decay(0.2, v1.train.get_or_create_global_step(), 1, 0.5)
    return v1.train.AdamOptimizer(rate).minimize(loss, v1.train.get_global_step()), loss


def of_rows(features):
    table = v1.get_variable('table', [50, 4], use_resource=True)
    loss = tf.reduce_sum(tf.nn.embedding_lookup(table, tf.cast(features, tf.int64)) ** 2)
    return v1.train.AdamOptimizer(0.1).minimize(loss, v1.train.get_or_create_global_step()), loss


def of_batch_normalization(features):
    layer = tf.keras.layers.BatchNormalization()
    loss = tf.reduce_mean((layer(features[:, None], training=True) * variable('w')) ** 2)
    return tf.group(descend(loss), layer.updates), loss


def average_that_waits(features):
    weight = variable('w')
    loss = tf.reduce_mean((features * weight) ** 2)
    with tf.control_dependencies([descend(loss)]):
        return v1.train.ExponentialMovingAverage(0.5).apply([weight]), loss


def of_a_loop(features):
    weight = variable('w')
    loss = tf.reduce_mean(tf.map_fn(lambda row: tf.tanh(row * weight), features))
    return descend(loss), loss


def average_beside(features):
    weight = variable('w')
    loss = tf.reduce_mean((features * weight) ** 2)
    return tf.group(descend(loss), v1.train.ExponentialMovingAverage(0.5).apply([weight])), loss


def rate_beside(features):
    step = v1.train.get_or_create_global_step()
    loss = tf.reduce_mean((features * variable('w')) ** 2)
    train = descend(loss, v1.train.exponential_decay(0.2, step, 1, 0.5))
    return tf.group(train, step.assign_add(1)), loss


def adversaries(features):
    maker, critic = variable('maker'), variable('critic')
    of_maker = tf.nn.softplus(-critic * tf.reduce_mean(features * maker))
    of_critic = tf.nn.softplus(critic * tf.reduce_mean(features * maker))
    return tf.group(descend(of_maker, variables=[maker]), descend(of_critic, variables=[critic])), of_maker + of_critic


def another_loss(features):
    weight = variable('w')
    return descend(tf.reduce_mean((features * weight) ** 2)), (weight - 3.0) ** 2


def change_in_a_legacy_function(features):
    count = variable('count', trainable=False)
    loss = tf.reduce_mean((features * variable('w')) ** 2) * count
    return tf.group(descend(loss), function.Defun(func_name='counts')(lambda: count.assign_add(1.0))()), loss


def two_draws(features):
    generator = tf.random.Generator.from_seed(3)
    masks = [tf.cast(generator.uniform([4]) < 0.5, tf.float32) for _ in range(2)]
    loss = tf.reduce_mean((features * masks[0] * variable('w') + masks[1] * variable('v')) ** 2)
    return descend(loss), loss


def two_sums(features):
    count, steps = variable('count', trainable=False), variable('steps', 0, trainable=False)
    loss = tf.reduce_mean((features * variable('w')) ** 2)
    of_batch = [count.assign_add(tf.reduce_mean(features * by), read_value=False) for by in (0.3, 0.7)]
    return tf.group(descend(loss), of_batch, [steps.assign_add(1, read_value=False) for _ in range(2)]), loss


def sums_that_wait(features):
    count = variable('count', trainable=False)
    loss = tf.reduce_mean((features * variable('w')) ** 2)
    with tf.control_dependencies([count.assign_add(0.3, read_value=False)]):
        return tf.group(descend(loss), count.assign_add(0.7, read_value=False)), loss


def batches_of_one_iterator():
    data = tf.data.Dataset.from_tensor_slices(tf.range(8.0)).batch(4, drop_remainder=True)
    return v1.data.make_one_shot_iterator(data)


def two_batches(features):
    iterator = batches_of_one_iterator()
    loss = tf.reduce_mean((iterator.get_next() * variable('w') - iterator.get_next()) ** 2)
    return descend(loss), loss


def a_batch_after_the_other(features):
    iterator = batches_of_one_iterator()
    one = iterator.get_next()
    with tf.control_dependencies([one]):
        loss = tf.reduce_mean((one * variable('w') - iterator.get_next()) ** 2)
    return descend(loss), loss


def table_beside(features):
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.0, name='table')
    keys = tf.cast(features, tf.int64)
    loss = tf.reduce_mean((table.lookup(keys) * variable('w')) ** 2)
    return tf.group(descend(loss), table.insert(keys, features)), loss


def two_of_a_queue(features):
    queue = tf.queue.FIFOQueue(10, tf.float32, [[]], shared_name='queue')
    loss = queue.dequeue() * variable('w') - queue.dequeue()
    return descend(loss), loss


@pytest.mark.parametrize(
    'model, names',
    [
        (of_adam, []),
        (of_rows, []),
        (of_batch_normalization, []),
        (average_that_waits, []),
        (of_a_loop, []),
        (average_beside, ['w']),
        (rate_beside, ['global_step']),
        (adversaries, ['critic', 'maker']),
        (another_loss, ['w']),
        (change_in_a_legacy_function, ['count']),
        (two_draws, ['StateVar']),
        (two_sums, ['count']),
        (sums_that_wait, []),
        (two_batches, ['OneShotIterator_1']),
        (a_batch_after_the_other, []),
        (table_beside, ['table']),
        (two_of_a_queue, ['queue']),
    ],
)
def test_what_a_step_leaves_to_chance(model, names):
    with tf.Graph().as_default():
        data = tf.data.Dataset.from_tensor_slices(tf.range(8.0)).batch(4, drop_remainder=True)
        train_op, loss = model(v1.data.make_one_shot_iterator(data).get_next())
        assert [name.rpartition('/')[2] for name in step_order.left_to_chance([train_op, loss.op])] == names


@pytest.mark.parametrize(
    'control_flow',
    [
        lambda weight: tf.while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, x * weight), (0, 1.0))[1],
        lambda weight: tf.cond(v1.placeholder(tf.bool, []), lambda: weight * 2.0, lambda: weight * 3.0),
    ],
    ids=['loop', 'condition'],
)
def test_control_flow_of_version_1_is_not_looked_at(control_flow):
    v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default():
            weight = variable('w')
            assert (
                step_order.left_to_chance([control_flow(weight).op, (weight * 2.0).op, weight.assign_add(1.0).op]) == []
            )
    finally:
        v1.enable_control_flow_v2()
