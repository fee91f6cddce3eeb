"""step_loop: a loop of steps computes bit for bit what single steps compute."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import function

from estimator_trainer.training import step_loop, step_part
from tests.training.step_models import MODELS, dropout, dropout_in_a_legacy_function, embedding, with_nested_loops

v1 = tf.compat.v1
STEPS = 12


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
                    [loop.losses, loop.done, loop.loss, loop.summary, loop.last[activations.ref()]],
                    {loop.most: some, loop.summarises: True},
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


def adds_one(step):
    return v1.assign_add(step, 1)


def adds_two(step):
    return v1.assign_add(step, 2)


def adds_one_twice(step):
    with tf.control_dependencies([adds_one(step)]):
        return adds_one(step)


def adds_what_is_computed(step):
    return v1.assign_add(step, tf.cast(tf.random.stateless_uniform([], [1, 2]) > 0.5, tf.int64))


def adds_under_a_condition(step):
    return tf.cond(step < 3, lambda: adds_one(step), lambda: tf.identity(step))


def adds_in_a_function(step):
    return tf.function(lambda: step.assign_add(1) + step.assign_add(1))()


def assigns(step):
    return v1.assign(step, step.read_value() + 1)


def adds_by_another_handle(step):
    with tf.control_dependencies(None):
        same = tf.raw_ops.VarHandleOp(dtype=tf.int64, shape=[], shared_name=step.op.get_attr('shared_name'))
    with tf.control_dependencies([adds_one(step)]):
        return tf.raw_ops.AssignAddVariableOp(resource=same, value=tf.constant(1, tf.int64))


def test_no_step_reads_the_count_where_it_is_certain():
    assert reads_of_the_count(adds_one) == 0


@pytest.mark.parametrize(
    'count',
    [
        adds_two,
        adds_one_twice,
        adds_what_is_computed,
        adds_under_a_condition,
        adds_in_a_function,
        assigns,
        adds_by_another_handle,
    ],
)
def test_each_step_reads_the_count_where_it_may_move_otherwise(count):
    assert reads_of_the_count(count) == 1


def reads_of_the_count(count) -> int:
    """How often the body of the loop reads the count for the loop itself."""
    with tf.Graph().as_default() as graph:
        step = v1.train.get_or_create_global_step()
        weight = v1.get_variable('weight', [])
        with tf.control_dependencies([v1.assign_add(weight, 1.0)]):
            train_op = count(step)
        with tf.control_dependencies([train_op]):
            counted = tf.identity(step.read_value(), name='the_count')
        step_loop.make(train_op, weight.read_value(), None, counted=counted)
        functions = graph.as_graph_def().library.function
        return sum(node.name.endswith('the_count') for function in functions for node in function.node_def)


def test_a_call_ends_after_a_step_that_has_not_counted_by_one():
    with tf.Graph().as_default() as graph:
        step, train_op, loss = one_step(dropout)
        with tf.control_dependencies([train_op]):  # every fourth step counts no more than the one before
            counted = step.read_value() - step.read_value() // 4
        loop = step_loop.make(train_op, loss, None, counted=counted)
        with started(graph) as session:
            assert len(session.run(loop.losses, {loop.most: 9})) == 4
            assert len(session.run(loop.losses, {loop.most: 9, loop.first: 3})) == 4
            assert len(session.run(loop.losses, {loop.most: 9, loop.first: 99})) == 1


def test_shapes_that_the_job_has_set_are_those_of_the_copy():
    with tf.Graph().as_default() as graph:
        _, train_op, loss = one_step(dropout)
        value = tf.numpy_function(lambda: np.zeros([3, 1], np.float32), [], tf.float32)
        value.set_shape([None, 1])
        loop = step_loop.make(train_op, loss, None, v1.summary.histogram('value', tf.transpose(value)), [value])
        with started(graph) as session:
            assert session.run([loop.done, loop.last[value.ref()]], {loop.most: 5})[1].shape == (3, 1)


def test_only_handles_and_placeholders_stay_outside():
    """The body of the loop takes nothing else from outside than these and the counters of the call."""
    with tf.Graph().as_default() as graph:
        for model in MODELS:
            with v1.variable_scope(model.__name__):
                _, train_op, loss = one_step(model)
                part = step_part.Part(graph, [train_op, loss.op])
            assert {op.type for op in part.borders} <= {'VarHandleOp', 'IteratorV2', 'HashTableV2', 'FIFOQueueV2'}
            assert not any(read in part.ops for op in part.borders for read in step_part._reads(op))


def test_a_handle_that_reads_of_the_step_is_refused():
    with tf.Graph().as_default():
        batch = tf.random.uniform([], maxval=9, dtype=tf.int64)
        table = tf.raw_ops.MutableDenseHashTableV2(
            empty_key=batch, deleted_key=tf.constant(-1, tf.int64), value_dtype=tf.float32, shared_name='table'
        )
        found = tf.raw_ops.LookupTableFindV2(table_handle=table, keys=np.array([3]), default_value=np.float32(1))
        with pytest.raises(step_loop.CannotLoop, match='MutableDenseHashTableV2.* is shared by all steps, but reads'):
            step_loop.make(found, tf.reduce_sum(found), None)


def test_state_under_the_name_of_an_operation_is_refused():
    with tf.Graph().as_default():
        stage = tf.raw_ops.Stage(values=[tf.constant(1.0)])
        with pytest.raises(step_loop.CannotLoop, match=r'Stage \(Stage\) keeps its state under its own name'):
            step_loop.make(stage, tf.constant(1.0), None)

        @tf.function
        def unstaged():
            return tf.raw_ops.Unstage(dtypes=[tf.float32])[0]

        with pytest.raises(step_loop.CannotLoop, match='Unstage.* in .* keeps its state under its own name'):
            step_loop.make(tf.no_op(), unstaged(), None)


def test_whatever_tensorflow_has_against_the_loop_is_a_reason(monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError('no such graph\nmore of it')

    with tf.Graph().as_default():
        _, train_op, loss = one_step(dropout)
        monkeypatch.setattr(tf, 'import_graph_def', broken)
        with pytest.raises(step_loop.CannotLoop, match=r'cannot build the loop \(RuntimeError: no such graph\)'):
            step_loop.make(train_op, loss, None)


@pytest.mark.parametrize(
    'model, draws',
    [(dropout, True), (dropout_in_a_legacy_function, True), (embedding, False), (with_nested_loops, False)],
)
def test_whether_the_step_draws_random_numbers(model, draws):
    with tf.Graph().as_default():
        _, train_op, loss = one_step(model)
        assert step_loop.make(train_op, loss, None).draws == draws


def test_what_cannot_be_copied_is_refused():
    with tf.Graph().as_default():
        step = v1.train.get_or_create_global_step()
        old = v1.get_variable('old', [], initializer=v1.ones_initializer(), use_resource=False)
        loss = tf.square(old * 2.0)
        train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
        with pytest.raises(step_loop.CannotLoop, match='old.* belongs to a variable of TensorFlow 1'):
            step_loop.make(train_op, loss, None)


def update_and_call(variable, x):
    return tf.function(lambda x: x * variable)(x)


def call_that_updates(variable, x):
    return tf.function(lambda x: variable.assign_add(x))(x)


def legacy_call(variable, x):
    return tf.reshape(function.Defun(tf.float32, func_name='legacy')(lambda x: x * variable)(x), [])


def call_without_the_variable(variable, x):
    return tf.function(lambda x: x * 2.0)(x)


def no_call(variable, x):
    return x * variable


@pytest.mark.parametrize(
    'model, is_ordered',
    [
        (update_and_call, True),
        (call_that_updates, True),
        (legacy_call, True),
        (call_without_the_variable, False),
        (no_call, False),
    ],
)
def test_calls_that_have_to_stay_in_their_place(model, is_ordered):
    with tf.Graph().as_default():
        variable = v1.get_variable('variable', initializer=1.0, use_resource=True)
        loss = model(variable, v1.data.make_one_shot_iterator(tf.data.Dataset.from_tensors(1.0)).get_next())
        with tf.control_dependencies([loss]):
            train_op = variable.assign_add(1.0)
        assert step_loop.make(train_op, loss, None).has_ordered_calls == is_ordered
