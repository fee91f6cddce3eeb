"""step_loop: a loop of steps computes bit for bit what single steps compute."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.training import step_loop

v1 = tf.compat.v1
STEPS = 12


def dropout(features):
    weights = v1.get_variable('weights', [8, 16])
    return tf.nn.dropout(features @ weights, rate=0.3)


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


MODELS = [dropout, embedding, with_a_table_and_a_condition, with_moving_averages, with_a_loop_and_python]


def one_step(model, nan_at=None, batches=None):
    """A training step -> (global step, train_op, loss)."""
    v1.set_random_seed(3)
    step = v1.train.get_or_create_global_step()
    values = np.random.RandomState(0).normal(size=[64, 4, 8]).astype(np.float32)
    data = tf.data.Dataset.from_tensor_slices(values).repeat().take(batches or 10**6)
    iterator = v1.data.make_initializable_iterator(data)
    v1.add_to_collection('start', iterator.initializer)
    loss = tf.reduce_mean(tf.square(model(iterator.get_next()) - 1.0))
    if nan_at is not None:
        loss = tf.where(tf.equal(step.read_value() + 1, nan_at), np.float32('nan'), loss)
    optimizer = v1.train.AdamOptimizer(0.01)
    return step, optimizer.minimize(loss, global_step=step), loss


def started(graph):
    session = v1.Session(graph=graph)
    session.run([v1.global_variables_initializer(), v1.tables_initializer(), v1.get_collection('start')])
    return session


@pytest.mark.parametrize('most', [1, 5, STEPS])
@pytest.mark.parametrize('model', MODELS)
def test_equal_to_single_steps(model, most):
    with tf.Graph().as_default() as graph:
        step, train_op, loss = one_step(model)
        activations = loss * 2.0
        summary = v1.summary.merge([v1.summary.scalar('loss', loss), v1.summary.histogram('twice', activations)])
        loop = step_loop.make(train_op, loss, None, summary, [activations])
        with started(graph) as session:
            expected = [session.run([loss, train_op])[0] for _ in range(STEPS)]
            weights = session.run(v1.global_variables())
        with started(graph) as session:
            losses, done = [], 0
            while done < STEPS:
                some = min(most, STEPS - done)
                fetched = session.run(
                    [loop.losses, loop.done, loop.loss, loop.summary, loop.last[activations.ref()]], {loop.most: some}
                )
                assert fetched[1] == some
                losses += list(fetched[0])
                done += some
            np.testing.assert_array_equal(losses, expected)
            for one, other in zip(session.run(v1.global_variables()), weights, strict=True):
                np.testing.assert_array_equal(one, other)
            assert session.run(step) == STEPS
            of_last = v1.Summary.FromString(fetched[3])
            assert fetched[2] == expected[-1] and fetched[4] == 2 * expected[-1]
            assert of_last.value[0].simple_value == expected[-1]


def test_a_call_ends_with_a_loss_that_is_not_finite():
    with tf.Graph().as_default() as graph:
        step, train_op, loss = one_step(dropout, nan_at=5)
        loop = step_loop.make(train_op, loss, None)
        with started(graph) as session:
            losses = session.run(loop.losses, {loop.most: 100})
            assert len(losses) == 5 and np.isnan(losses[-1]) and session.run(step) == 5


def test_a_call_ends_where_it_is_told_to():
    with tf.Graph().as_default() as graph:
        step, train_op, loss = one_step(dropout)
        with tf.control_dependencies([train_op]):
            stops = tf.equal(step.read_value() % 4, 0)
        loop = step_loop.make(train_op, loss, stops)
        with started(graph) as session:
            assert [len(session.run(loop.losses, {loop.most: 6})) for _ in range(3)] == [4, 4, 4]


def test_what_else_is_asked_for_of_each_step():
    with tf.Graph().as_default() as graph:
        step, train_op, loss = one_step(dropout)
        loop = step_loop.make(train_op, loss, None, also=2 * tf.cast(loss, tf.float64))
        with started(graph) as session:
            losses, twice = session.run([loop.losses, loop.also], {loop.most: 6})
            assert len(losses) == 6 and twice == pytest.approx(2 * losses)


def test_steps_before_the_end_of_the_data_are_trained():
    with tf.Graph().as_default() as graph:
        step, train_op, loss = one_step(dropout, batches=7)
        loop = step_loop.make(train_op, loss, None)
        with started(graph) as session:
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run(loop.losses, {loop.most: 10})
            assert session.run(step) == 7


def test_what_cannot_be_copied_is_refused():
    with tf.Graph().as_default():
        step = v1.train.get_or_create_global_step()
        old = v1.get_variable('old', [], initializer=v1.ones_initializer(), use_resource=False)
        loss = tf.square(old * 2.0)
        train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
        with pytest.raises(step_loop.CannotLoop, match='old.* is a variable of TensorFlow 1'):
            step_loop.make(train_op, loss, None)
