"""training.step_graph: a step that gets no batch changes nothing."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import function

from estimator_trainer.training import step_graph, step_loop

v1 = tf.compat.v1
BATCHES = 3


def table_and_adam(ids):
    """Adam decays the moments of the whole table, whatever the batch is."""
    table = v1.get_variable('table', [500, 8], initializer=v1.ones_initializer(), use_resource=True)
    loss = tf.reduce_sum(tf.nn.embedding_lookup(table, ids) ** 2)
    return v1.train.AdamOptimizer(0.1).minimize(loss, v1.train.get_or_create_global_step()), loss


def counted_beside(ids):
    """Two updates, one of which reads nothing of the batch."""
    count = v1.get_variable('count', [], initializer=v1.zeros_initializer(), use_resource=True)
    total = v1.get_variable('total', [], initializer=v1.zeros_initializer(), use_resource=True)
    loss = tf.reduce_sum(tf.cast(ids, tf.float32))
    return tf.group(count.assign_add(1.0), total.assign_add(loss)), loss


def after_the_data(model, most=None):
    """The variables once the data have ended, of single steps or of a call of several."""
    with tf.Graph().as_default():
        batches = tf.data.Dataset.range(BATCHES).map(lambda number: number + tf.range(4, dtype=tf.int64))
        iterator = v1.data.make_initializable_iterator(batches)
        train_op, loss = model(iterator.get_next())
        step_graph.wait_for_batch([train_op if isinstance(train_op, tf.Operation) else train_op.op, loss.op])
        loop = step_loop.make(train_op, loss, None) if most else None
        with v1.Session() as session:
            session.run([v1.global_variables_initializer(), iterator.initializer])
            taken = []
            with pytest.raises(tf.errors.OutOfRangeError):
                while True:
                    session.run(loop.done if loop else train_op, {loop.most: most} if loop else None)
                    taken.append(session.run(v1.global_variables()))
            return taken, session.run(v1.global_variables())


@pytest.mark.parametrize('model', [table_and_adam, counted_beside])
def test_a_step_without_a_batch_changes_nothing(model):
    for _ in range(10):  # it was a matter of chance
        taken, end = after_the_data(model)
        assert len(taken) == BATCHES
        for before, after in zip(taken[-1], end):
            np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize('model', [table_and_adam, counted_beside])
def test_nor_does_it_in_a_call_of_several(model):
    taken, _ = after_the_data(model)
    for _ in range(5):
        _, end = after_the_data(model, most=7)
        for value, other in zip(end, taken[-1]):
            np.testing.assert_array_equal(value, other)


def test_a_batch_that_is_read_after_an_update_still_is():
    with tf.Graph().as_default():
        iterators = [v1.data.make_initializable_iterator(tf.data.Dataset.range(number, 9)) for number in (1, 2)]
        total = v1.get_variable('total', [], tf.int64, v1.zeros_initializer(), use_resource=True)
        first = total.assign_add(iterators[0].get_next())
        with tf.control_dependencies([first]):
            train_op = total.assign_add(10 * iterators[1].get_next()).op
        step_graph.wait_for_batch([train_op])
        with v1.Session() as session:
            session.run([v1.global_variables_initializer(), *(iterator.initializer for iterator in iterators)])
            session.run(train_op)
            assert session.run(total) == 21


def reference():
    return v1.get_variable('it', [], initializer=v1.ones_initializer(), use_resource=False)


def resource():
    return v1.get_variable('it', [], initializer=v1.ones_initializer(), use_resource=True)


def in_a_condition():
    it = resource()
    return tf.cond(it > 0.0, lambda: it + 1.0, lambda: it * tf.random.uniform([], seed=1))


def in_a_function():
    it = resource()
    return tf.function(lambda: it * 2.0)()


def in_a_table():
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(['a'], [2.0]), 0.0)
    return table.lookup(tf.constant('a'))


@pytest.mark.parametrize('read', [reference, resource, in_a_condition, in_a_function, in_a_table])
def test_who_reads_a_variable_beside_the_step_reads_no_batch(read):
    with tf.Graph().as_default():
        iterator = v1.data.make_initializable_iterator(tf.data.Dataset.range(1, 9))
        total = v1.get_variable('total', [], initializer=v1.zeros_initializer(), use_resource=True)
        beside = read() + 0.0
        train_op = total.assign_add(beside * tf.cast(iterator.get_next(), tf.float32))
        step_graph.wait_for_batch([train_op.op])
        with v1.Session() as session:
            session.run([v1.global_variables_initializer(), v1.tables_initializer(), iterator.initializer])
            factor = session.run(beside)
            assert session.run(train_op) == factor


def updated_in_a_function(it):
    return tf.function(lambda: it.assign_add(1.0))()


def updated_in_a_legacy_function(it):
    return function.Defun(func_name='legacy')(lambda: it.assign_add(1.0))()


def updated_in_a_condition(it):
    return tf.cond(it > 0.0, lambda: it.assign_add(1.0), lambda: it * 1.0)


def updated_by_python(it):
    values = []
    return it.assign(tf.numpy_function(lambda: np.float32(values.append(0) or len(values)), [], tf.float32))


@pytest.mark.parametrize(
    'update', [updated_in_a_function, updated_in_a_legacy_function, updated_in_a_condition, updated_by_python]
)
def test_an_update_in_a_function_waits(update):
    with tf.Graph().as_default():
        iterator = v1.data.make_initializable_iterator(tf.data.Dataset.range(1))
        it = resource()
        train_op = tf.group(update(it), iterator.get_next())
        step_graph.wait_for_batch([train_op])
        with v1.Session() as session:
            session.run([v1.global_variables_initializer(), iterator.initializer])
            session.run(train_op)
            before = session.run(it)
            for _ in range(5):
                with pytest.raises(tf.errors.OutOfRangeError):
                    session.run(train_op)
            assert session.run(it) == before


class Own(tf.estimator.SessionRunHook):
    pass


@pytest.mark.parametrize(
    'make, waits',
    [
        (lambda loss: v1.train.LoggingTensorHook([loss], 1), True),
        (lambda loss: v1.train.NanTensorHook(loss), True),
        (lambda loss: v1.train.FinalOpsHook([loss]), False),
        (lambda loss: Own(), False),
    ],
)
def test_nothing_waits_where_a_hook_may_run_a_part_of_the_step(make, waits):
    with tf.Graph().as_default():
        read = v1.data.make_initializable_iterator(tf.data.Dataset.range(9)).get_next()
        update = resource().assign_add(1.0)
        step_graph.wait_for_batch([tf.group(update, read)], [make(read)])
        assert (read.op in update.op.control_inputs) == waits


def test_what_may_give_the_data_does_not_wait_for_them():
    with tf.Graph().as_default():
        read = v1.data.make_initializable_iterator(tf.data.Dataset.range(9)).get_next()
        queue = tf.queue.FIFOQueue(10, tf.float32, [[]], shared_name='queue')
        played = tf.numpy_function(lambda: np.float32(1), [], tf.float32)
        put, update = queue.enqueue(1.0), resource().assign_add(played)
        step_graph.wait_for_batch([tf.group(update, put, read)])
        assert [read.op in op.control_inputs for op in (played.op, put, update.op)] == [False, False, True]


@pytest.fixture
def reads():
    """A graph that reads a batch of a data set."""
    with tf.Graph().as_default() as graph:
        iterator = v1.data.make_one_shot_iterator(tf.data.Dataset.range(100))
        yield graph, iterator.get_next()


def test_the_wait_of_a_step_that_reads(reads):
    graph, batch = reads
    secs = step_graph.measured_wait(step_graph.needed([batch.op]))
    with v1.Session(graph=graph) as session:
        found = [session.run([batch, secs]) for _ in range(3)]
    assert [number for number, _ in found] == [0, 1, 2]
    assert all(0 < wait < 60 for _, wait in found)


def test_no_wait_of_a_graph_without_iterators():
    with tf.Graph().as_default() as graph:
        assert step_graph.measured_wait(graph.get_operations()) is None


def test_no_wait_of_a_graph_that_may_not_read_a_clock(reads, monkeypatch):
    monkeypatch.setattr(step_graph.eager_context, 'is_deterministic', lambda: True)
    assert step_graph.measured_wait(reads[0].get_operations()) is None
