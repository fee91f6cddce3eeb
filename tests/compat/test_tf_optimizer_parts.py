"""Momentum updates the rows of a table as tf.compat.v1.train.MomentumOptimizer does."""

import concurrent.futures

import numpy as np
import pytest
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


@pytest.mark.parametrize('kind', ['SGD', 'Adam'])
def test_a_rate_that_is_a_number_is_not_that_of_the_checkpoint(tmp_path, kind):
    def made(rate):
        variable, optimizer = tf.Variable(1.0), getattr(tf.keras.optimizers.legacy, kind)(rate)
        numbers = optimizer_parts.numbers(optimizer)
        optimizer_parts.create_variables(optimizer, [variable])
        return optimizer, numbers, tf.train.Checkpoint(optimizer=optimizer, variable=variable)

    saved = made(0.5)[2].save(str(tmp_path / 'saved'))
    optimizer, numbers, checkpoint = made(0.25)
    checkpoint.restore(saved).assert_existing_objects_matched()
    assert float(optimizer.learning_rate) == 0.5
    optimizer_parts.set_numbers(optimizer, numbers)
    assert float(optimizer.learning_rate) == 0.25
    with_function = getattr(tf.keras.optimizers.legacy, kind)(lambda: 0.5)
    assert 'learning_rate' not in optimizer_parts.numbers(with_function)
