"""How a step updates: accumulation, loss scaling, several optimizers, averages, clipping, learning rates."""

import tensorflow as tf

from tests.differential.building import dense, job_of
from tests.differential.case import case

v1 = tf.compat.v1


@case(counts_by_one=False, sample=True)
def accumulation():
    """An update for each four batches, which the global step counts."""

    def train(loss, step):
        optimizer = v1.train.GradientDescentOptimizer(0.05)
        pairs = optimizer.compute_gradients(loss)
        sums = [tf.Variable(tf.zeros(variable.shape), trainable=False, name='sum') for _, variable in pairs]
        count = tf.Variable(tf.constant(0), trainable=False, name='count')
        with tf.control_dependencies([total.assign_add(gradient) for total, (gradient, _) in zip(sums, pairs)]):
            number = count.assign_add(1)

        def apply():
            means = [(total.read_value() / 4.0, variable) for total, (_, variable) in zip(sums, pairs)]
            with tf.control_dependencies([optimizer.apply_gradients(means, step)]):
                with tf.control_dependencies([total.assign(tf.zeros_like(total)) for total in sums]):
                    return tf.constant(True)

        return tf.group(tf.cond(tf.equal(number % 4, 0), apply, lambda: tf.constant(False)))

    return job_of(dense, train=train)


@case(counts_by_one=False)
def two_optimizers():
    """As in a GAN: both count the global step."""

    def train(loss, step):
        first = v1.train.GradientDescentOptimizer(0.02).minimize(loss, step)
        with tf.control_dependencies([first]):
            return v1.train.GradientDescentOptimizer(0.01).minimize(loss, step)

    return job_of(dense, train=train)
