"""The summaries of calls that take several steps are those that single steps write."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.training import step_loop

v1 = tf.compat.v1


def one_step(nan_at=None):
    """A training step with a rate that falls -> (train_op, loss, rate)."""
    v1.set_random_seed(3)
    step = v1.train.get_or_create_global_step()
    values = np.random.RandomState(0).normal(size=[64, 4, 8]).astype(np.float32)
    iterator = v1.data.make_initializable_iterator(tf.data.Dataset.from_tensor_slices(values).repeat())
    v1.add_to_collection('start', iterator.initializer)
    weights = v1.get_variable('weights', [8, 16])
    loss = tf.reduce_mean(tf.square(tf.nn.dropout(iterator.get_next() @ weights, rate=0.3) - 1.0))
    if nan_at is not None:
        loss = tf.where(tf.equal(step.read_value() + 1, nan_at), np.float32('nan'), loss)
    rate = v1.train.exponential_decay(0.1, step, 1, 0.9)
    return v1.train.GradientDescentOptimizer(rate).minimize(loss, global_step=step), loss, rate


def started(graph):
    session = v1.Session(graph=graph)
    session.run([v1.global_variables_initializer(), v1.get_collection('start')])
    return session


def of_scalars(loss, rate):
    return [v1.summary.scalar('loss', loss), v1.summary.scalar('rate', rate), v1.summary.scalar('fixed', 0.5)]


def of_many_scalars(loss, rate):
    gradients = tf.unstack(tf.gradients(loss, v1.trainable_variables())[0][0])
    return [v1.summary.scalar('loss', loss), *(v1.summary.scalar(f'g{n}', one) for n, one in enumerate(gradients))]


def of_arrays(loss, rate):
    (gradient,) = tf.gradients(loss, v1.trainable_variables())
    return [v1.summary.scalar('loss', loss), v1.summary.histogram('gradient', gradient)]


@pytest.mark.parametrize('summaries', [of_scalars, of_many_scalars, of_arrays])
def test_equal_to_those_of_single_steps(summaries):
    with tf.Graph().as_default() as graph:
        train_op, loss, rate = one_step()
        summary = v1.summary.merge(summaries(loss, rate))
        loop = step_loop.make(train_op, loss, None, summary)
        with started(graph) as session:
            single = [session.run([summary, train_op])[0] for _ in range(9)]
        with started(graph) as session:
            feeds = {loop.most: 3, loop.summarises: True}
            of_calls = [session.run([loop.summary, loop.done], feeds)[0] for _ in range(3)]
            assert of_calls == single[2::3]


@pytest.mark.parametrize('summaries, has_condition', [(of_scalars, False), (of_arrays, True)])
def test_a_step_has_no_condition_for_a_few_scalars(summaries, has_condition):
    with tf.Graph().as_default() as graph:
        train_op, loss, rate = one_step()
        step_loop.make(train_op, loss, None, v1.summary.merge(summaries(loss, rate)))
        functions = graph.as_graph_def().library.function
        (body,) = (function for function in functions if 'training_steps_body' in function.signature.name)
        assert any(node.op in ('If', 'StatelessIf') for node in body.node_def) == has_condition


@pytest.mark.parametrize('summaries', [of_scalars, of_arrays])
def test_none_if_it_is_not_due_or_the_call_has_ended_early(summaries):
    with tf.Graph().as_default() as graph:
        train_op, loss, rate = one_step(nan_at=5)
        loop = step_loop.make(train_op, loss, None, v1.summary.merge(summaries(loss, rate)))
        with started(graph) as session:
            assert session.run([loop.summary, loop.done], {loop.most: 2}) == [b'', 2]
            assert session.run([loop.summary, loop.done], {loop.most: 9, loop.summarises: True}) == [b'', 3]


def test_a_summary_that_the_step_waits_for():
    with tf.Graph().as_default() as graph:
        _, loss, _ = one_step()
        summary = v1.summary.scalar('loss', loss)
        with tf.control_dependencies([summary]):
            train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        loop = step_loop.make(train_op, loss, None, summary)
        with started(graph) as session:
            losses, of_last = session.run([loop.losses, loop.summary], {loop.most: 5, loop.summarises: True})
            assert v1.Summary.FromString(of_last).value[0].simple_value == losses[4]


def test_a_summary_of_a_variable_is_that_of_the_last_step():
    """As in a single step, it may read the variable before the update or after it."""
    with tf.Graph().as_default() as graph:
        train_op, loss, _ = one_step()
        (weights,) = v1.trainable_variables()
        shown = tf.cond(tf.reduce_any(weights > 0), lambda: tf.reduce_sum(weights), lambda: 0.0)
        loop = step_loop.make(train_op, loss, None, v1.summary.scalar('sum', shown))
        with started(graph) as session:
            values = [session.run(shown)]
            for _ in range(5):
                session.run(train_op)
                values.append(session.run(shown))
        with started(graph) as session:
            of_last = session.run(loop.summary, {loop.most: 5, loop.summarises: True})
            assert len(set(values)) == 6 and v1.Summary.FromString(of_last).value[0].simple_value in values[-2:]
