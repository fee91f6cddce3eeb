"""Momentum updates the rows of a table as tf.compat.v1.train.MomentumOptimizer does."""

import concurrent.futures

import numpy as np
import tensorflow as tf

from estimator_trainer.compat.patches import optimizer_parts

v1 = tf.compat.v1


def test_rows_are_updated_as_in_v1():
    def gradient():
        return tf.IndexedSlices(tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([1, 3]), tf.constant([5, 2]))

    table, optimizer = tf.Variable(tf.ones([5, 2])), optimizer_parts.Momentum(0.1, 0.9)
    for _ in range(3):
        optimizer.apply_gradients([(gradient(), table)])
    ours = table.numpy()
    with tf.Graph().as_default(), v1.Session() as session:
        other = v1.get_variable('table', initializer=tf.ones([5, 2]), use_resource=True)
        train = v1.train.MomentumOptimizer(0.1, 0.9).apply_gradients([(gradient(), other)])
        session.run(v1.global_variables_initializer())
        for _ in range(3):
            session.run(train)
        np.testing.assert_array_equal(ours, session.run(other))
    assert (ours[[0, 2, 4]] == 1).all()


def test_a_replacement_is_of_its_thread_and_ends_with_it():
    """As the replicas of a strategy: both are within it, and the first one leaves first."""
    calls = []

    def noted(name):
        return lambda original: lambda *args: calls.append(name)

    def replaced(name):
        return optimizer_parts.apply_gradients_replaced(noted(name))

    def train():
        with tf.Graph().as_default():
            variable = tf.compat.v1.get_variable('weight', [])
            return tf.compat.v1.train.GradientDescentOptimizer(1.0).apply_gradients([(variable, variable)])

    with concurrent.futures.ThreadPoolExecutor(1) as other:
        one, two = replaced('one'), replaced('two')
        one.__enter__()
        other.submit(two.__enter__).result()
        train()
        other.submit(train).result()
        one.__exit__(None, None, None)
        other.submit(train).result()
        other.submit(two.__exit__, None, None, None).result()
        assert train() is not None and other.submit(train).result() is not None
    assert calls == ['one', 'two', 'two']
