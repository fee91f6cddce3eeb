"""--accumulate_steps: the steps of an Estimator and of a Keras model that add up the gradients of several batches.

The expected values come from plain sessions and tapes, which compute the gradients of one batch at a time, and feed
their sums to the optimizer.
"""

import functools
import graphlib

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.compat.patches import counted_replicas
from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import micro_batches
from estimator_trainer.training import accumulated_batches, accumulated_steps, sync_ps
from tests.training.accumulated_models import (
    BATCH,
    ROWS,
    STEPS,
    TRAIN,
    accumulated,
    batches,
    by_adam,
    by_clipped_adagrad,
    by_two_optimizers,
    dense,
    expected,
    model_fn_of,
    sparse,
    with_a_loop,
    with_dropout,
    with_noise,
)

v1 = tf.compat.v1


@pytest.mark.parametrize('count', [2, 3])
@pytest.mark.parametrize('train_op_of', [by_adam, by_clipped_adagrad, by_two_optimizers])
@pytest.mark.parametrize('loss_of', [dense, sparse, with_a_loop, with_noise])
def test_a_step_applies_the_sum_of_its_batches(loss_of, train_op_of, count):
    model_fn = model_fn_of(loss_of, train_op_of)
    (losses, weights), (plain_losses, plain_weights) = accumulated(model_fn, count), expected(model_fn, count)
    np.testing.assert_allclose(losses, plain_losses, rtol=1e-5)
    assert weights.keys() == plain_weights.keys()
    for name, value in weights.items():
        np.testing.assert_allclose(value, plain_weights[name], rtol=1e-5, atol=1e-6, err_msg=name)
    assert weights['global_step'] == STEPS


@pytest.mark.parametrize('loss_of', [dense, sparse, with_a_loop, with_dropout])
def test_calls_of_several_steps_compute_the_same_bits(loss_of):
    model_fn = model_fn_of(loss_of, by_adam)
    single, several = accumulated(model_fn, 3), accumulated(model_fn, 3, in_calls=True)
    assert several[0] == single[0][: len(several[0])] and len(several[0]) == STEPS
    for name, value in single[1].items():
        np.testing.assert_array_equal(several[1][name], value)


def test_updates_of_a_batch_are_done_for_each_and_others_once():
    def loss_of(features, labels):
        mean = v1.get_variable('mean', [3], initializer=v1.zeros_initializer(), trainable=False)
        counter = v1.get_variable('counter', [], initializer=v1.zeros_initializer(), trainable=False)
        v1.add_to_collection('updates', mean.assign(0.5 * mean + 0.5 * tf.reduce_mean(features['x'], 0)))
        v1.add_to_collection('updates', counter.assign_add(1))
        return dense(features, labels)

    def train_op_of(loss, step):
        with tf.control_dependencies(v1.get_collection('updates')):
            return by_adam(loss, step)

    _, weights = accumulated(model_fn_of(loss_of, train_op_of), 3)
    mean = np.zeros(3, np.float32)
    for batch in batches(3 * STEPS)[0]['x']:
        mean = 0.5 * mean + 0.5 * batch.mean(0)
    np.testing.assert_allclose(weights['mean'], mean, rtol=1e-5)
    assert weights['counter'] == STEPS == weights['global_step']


def drawn_in_a_loop():
    return tf.map_fn(lambda _: tf.random.uniform([]), tf.zeros([1]))[0]


@pytest.mark.parametrize(
    'draw', [lambda: tf.random.uniform([]), tf.function(lambda: tf.random.uniform([])), drawn_in_a_loop]
)
def test_each_micro_batch_draws_numbers_of_its_own(draw):
    def loss_of(features, labels):
        v1.set_random_seed(5)
        zero = 0 * tf.reduce_sum(features['x'])
        sums = [v1.get_variable(name, [], initializer=v1.zeros_initializer(), trainable=False) for name in 'ab']
        drawn = draw() + zero
        v1.add_to_collection('updates', sums[0].assign_add(drawn))
        v1.add_to_collection('updates', sums[1].assign_add(drawn**2))
        return dense(features, labels)

    def train_op_of(loss, step):
        with tf.control_dependencies(v1.get_collection('updates')):
            return by_adam(loss, step)

    _, weights = accumulated(model_fn_of(loss_of, train_op_of), 2, steps=1)
    assert weights['a'] > 0 and abs(weights['b'] - weights['a'] ** 2 / 2) > 1e-5  # else both were the same


def test_weights_that_no_optimizer_of_tensorflow_updates_are_named(caplog):
    class WithItsOwn(v1.train.GradientDescentOptimizer):
        def apply_gradients(self, grads_and_vars, global_step=None, name=None):
            return tf.group(*(variable.assign_sub(0.1 * gradient) for gradient, variable in grads_and_vars))

    def train_op_of(loss, step):
        first, *others = v1.trainable_variables()
        own = WithItsOwn(0.1).minimize(loss, var_list=[first])
        return tf.group(own, v1.train.AdamOptimizer(0.1).minimize(loss, step, others))

    accumulated(model_fn_of(dense, train_op_of), 2, steps=1)
    assert 'the updates of hidden come from no apply_gradients of TensorFlow' in caplog.text
    assert 'once for each of the 2 batches' in caplog.text
    caplog.clear()
    accumulated(model_fn_of(dense, by_two_optimizers), 2, steps=1)
    assert caplog.text == ''


def test_an_optimizer_within_another_one_is_no_second_sum():
    class Outer(v1.train.Optimizer):
        def __init__(self):
            super().__init__(False, 'outer')
            self._inner = v1.train.GradientDescentOptimizer(0.05)

        def apply_gradients(self, grads_and_vars, global_step=None, name=None):
            return self._inner.apply_gradients([(2 * g, v) for g, v in grads_and_vars], global_step, name)

    twice, once = (
        accumulated(model_fn_of(dense, functools.partial(minimized_by, kind)), 2)[1]
        for kind in (Outer, lambda: v1.train.GradientDescentOptimizer(0.1))
    )
    for name, value in once.items():
        np.testing.assert_allclose(twice[name], value, rtol=1e-6)


def minimized_by(kind, loss, step):
    return kind().minimize(loss, step)


def no_gradients(loss, step):
    return step.assign_add(1).op


def under_a_condition(loss, step):
    gradients = v1.gradients(loss, v1.trainable_variables())
    optimizer = v1.train.GradientDescentOptimizer(0.1)

    def apply():
        with tf.control_dependencies([optimizer.apply_gradients(zip(gradients, v1.trainable_variables()))]):
            return tf.constant(0)

    with tf.control_dependencies([tf.cond(step % 2 > 0, apply, lambda: tf.constant(0))]):
        return step.assign_add(1).op


def of_own_sums(loss, step):
    """Adds up gradients in variables, and applies what these hold."""
    variables = v1.trainable_variables()
    sums = [v1.get_variable(f'sum{i}', each.shape, trainable=False) for i, each in enumerate(variables)]
    adds = [total.assign_add(gradient) for total, gradient in zip(sums, v1.gradients(loss, variables))]
    with tf.control_dependencies(adds):
        held = [total.read_value() for total in sums]
    return v1.train.GradientDescentOptimizer(0.1).apply_gradients(zip(held, variables), step)


def one_after_another(loss, step):
    first, *others = v1.trainable_variables()
    update = v1.train.GradientDescentOptimizer(0.1).minimize(loss, var_list=[first])
    with tf.control_dependencies([update]):
        again = tf.reduce_sum(first.read_value()) * tf.identity(loss)
    return v1.train.GradientDescentOptimizer(0.1).minimize(again, step, var_list=others)


@pytest.mark.parametrize(
    ('train_op_of', 'why'),
    [
        (no_gradients, 'gives no gradients to an optimizer'),
        (under_a_condition, 'under a condition'),
        (of_own_sums, 'not computed from the batch'),
        (one_after_another, 'wait for the update of another one'),
    ],
)
def test_what_cannot_be_added_up_is_refused(train_op_of, why):
    with pytest.raises(UsageError, match=f'--accumulate_steps: .*{why}'):
        accumulated(model_fn_of(dense, train_op_of), 2)


def test_the_wait_is_that_for_all_batches():
    with tf.Graph().as_default():
        v1.train.create_global_step()
        data = tf.data.Dataset.from_tensor_slices(batches(6))
        features, labels = v1.data.make_one_shot_iterator(data).get_next()
        adds_up = accumulated_steps.Accumulation(3)
        spec = adds_up.of_model_fn(model_fn_of(dense, by_adam))(features, labels, TRAIN, {}, None)
        one = tf.reduce_sum(labels) * 0 + 2.0  # stands for the wait of a batch
        waited = adds_up.build(spec.train_op, one)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            assert session.run(waited) == 6.0


def test_a_strategy_counts_more_replicas_only_within():
    with counted_replicas.times(3):
        assert tf.distribute.get_strategy().num_replicas_in_sync == 3
        assert tf.distribute.MirroredStrategy(['/cpu:0']).num_replicas_in_sync == 3
    assert tf.distribute.get_strategy().num_replicas_in_sync == 1


def test_whole_groups_keep_every_kind_of_tensor():
    ragged = tf.ragged.constant([[1], [2, 3], [], [4], [5]])
    features = {'ragged': ragged, 'sparse': tf.sparse.from_dense(tf.eye(5)), 'dense': tf.range(5)}
    data = tf.data.Dataset.from_tensor_slices(features).batch(2)
    taken = list(micro_batches.whole_groups(data, 2))
    assert [batch['dense'].numpy().tolist() for batch in taken] == [[0, 1], [2, 3]]
    assert [batch['ragged'].to_list() for batch in taken] == [[[1], [2, 3]], [[], [4]]]
    assert [tf.sparse.to_dense(batch['sparse']).numpy().argmax(1).tolist() for batch in taken] == [[0, 1], [2, 3]]
    endless = micro_batches.whole_groups(data.repeat(), 2)
    assert endless.cardinality() == tf.data.experimental.INFINITE_CARDINALITY


def test_a_batch_may_have_no_labels():
    data = tf.data.Dataset.range(5).map(lambda x: ({'x': x}, None))
    taken = list(micro_batches.whole_groups(data, 2))
    assert [(int(features['x']), labels) for features, labels in taken] == [(number, None) for number in range(4)]


@pytest.mark.parametrize('given', [{'x': [1.0]}, lambda: {'x': [1.0]}])
def test_an_input_fn_without_a_data_set_is_refused(given):
    input_fn = micro_batches.input_fn_of_steps(lambda *args: given, 3)
    params = dict.fromkeys(('start_step', 'max_steps', 'steps_per_epoch', 'num_replicas', 'global_batch_size'), 6)
    with pytest.raises(UsageError, match='--accumulate_steps=3: the input_fn returns a .* tf.data.Dataset itself'):
        input_fn(TRAIN, params)
    assert input_fn('eval', params) is given


@pytest.mark.parametrize('pipelines, replicas, whole', [(1, 1, 6), (1, 2, 4), (2, 2, 6), (2, 4, 4)])
def test_the_groups_of_a_pipeline_are_whole_for_all_of_its_replicas(pipelines, replicas, whole):
    data = tf.data.Dataset.range(6)
    input_fn = micro_batches.input_fn_of_steps(lambda *args: data, 2)
    params = dict.fromkeys(('start_step', 'max_steps', 'steps_per_epoch', 'num_replicas', 'global_batch_size'), 6)
    assert len(list(input_fn(TRAIN, params, tf.distribute.InputContext(pipelines, 0, replicas)))) == whole


def test_a_keras_step_adds_up_sparse_and_dense_gradients():
    table, bias, unused = tf.Variable(tf.ones([ROWS, 2])), tf.Variable(1.0), tf.Variable(1.0)
    features, labels = batches(3)

    def of_batch(features, labels):
        with tf.GradientTape() as tape:
            outputs = tf.reduce_sum(tf.nn.embedding_lookup(table, features['id']), 1) + bias
            scaled = tf.reduce_mean((outputs - labels) ** 2) / tf.distribute.get_strategy().num_replicas_in_sync
        return scaled, tape.gradient(scaled, [table, bias, unused])

    given = [({'id': features['id'][number]}, labels[number]) for number in range(3)]
    given = [tf.nest.map_structure(tf.constant, batch) for batch in given]

    @tf.function
    def step():
        return accumulated_batches.added_up(of_batch, given)

    loss, (of_table, of_bias, of_unused) = step()
    parts = [of_batch(*batch) for batch in given]
    np.testing.assert_allclose(loss, np.mean([share for share, _ in parts]), rtol=1e-6)
    np.testing.assert_allclose(of_bias, np.mean([each[1] for _, each in parts]), rtol=1e-6)
    dense = np.mean([tf.convert_to_tensor(each[0]) for _, each in parts], 0)
    np.testing.assert_allclose(tf.convert_to_tensor(of_table), dense, rtol=1e-6)
    assert of_unused is None and of_table.indices.shape == [3 * BATCH]


def test_what_a_function_computes_with_is_found_outside():
    with tf.Graph().as_default():
        outside, waited_for, seen = tf.constant(1.0), tf.constant(2.0), []

        def computed():
            with tf.control_dependencies([waited_for]):
                seen.append(outside * 2)
            return seen[0]

        tf.cond(tf.constant(True), computed, lambda: tf.constant(0.0))
        assert outside.op in accumulated_steps._computed_from(seen[0])
        assert waited_for.op not in accumulated_steps._computed_from(seen[0])


def test_with_parameter_servers_nothing_waits_for_itself():
    """Gradients go there and come back without an edge in the graph."""
    with tf.Graph().as_default() as graph:
        v1.train.create_global_step()
        features, labels = v1.data.make_one_shot_iterator(tf.data.Dataset.from_tensor_slices(batches(4))).get_next()
        adds_up = accumulated_steps.Accumulation(2)
        model_fn = adds_up.of_model_fn(model_fn_of(sparse, by_adam))
        spec = sync_ps.with_sync_updates(model_fn, 0, 2, 0, 1)(features, labels, TRAIN, {}, None)
        adds_up.build(spec.train_op, None)
    waits = {op: [*(tensor.op for tensor in op.inputs), *op.control_inputs] for op in graph.get_operations()}
    graphlib.TopologicalSorter(waits).prepare()
