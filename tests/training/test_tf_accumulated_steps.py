"""--accumulate_steps: the steps of an Estimator and of a Keras model that add up the gradients of several batches.

The expected values come from plain sessions and tapes, which compute the gradients of one batch at a time, and feed
their sums to the optimizer.
"""

import functools
import graphlib

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.compat.patches import counted_replicas, optimizer_parts
from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import micro_batches
from estimator_trainer.training import accumulated_batches, accumulated_steps, step_graph, step_loop, sync_ps

v1 = tf.compat.v1
TRAIN = tf.estimator.ModeKeys.TRAIN
STEPS, BATCH, ROWS, MOST = 5, 4, 9, 40


def batches(count):
    """features, labels of so many batches; ids occur several times."""
    random = np.random.RandomState(7)
    features = {
        'x': random.normal(size=[MOST, BATCH, 3]).astype(np.float32)[:count],
        'id': random.randint(0, ROWS, [MOST, BATCH])[:count],
    }
    return features, random.normal(size=[MOST, BATCH]).astype(np.float32)[:count]


def dense(features, labels):
    first, second = (v1.glorot_uniform_initializer(seed) for seed in (1, 2))
    hidden = tf.tanh(features['x'] @ v1.get_variable('hidden', [3, 5], initializer=first))
    outputs = (hidden @ v1.get_variable('output', [5, 1], initializer=second))[:, 0]
    return tf.reduce_mean((outputs - labels) ** 2)


def sparse(features, labels):
    table = v1.get_variable('table', [ROWS, 2], initializer=v1.ones_initializer())
    return tf.reduce_mean((tf.reduce_sum(tf.nn.embedding_lookup(table, features['id']), 1) - labels) ** 2)


def with_a_loop(features, labels):
    """Reads a variable in each turn, as a recurrent layer does."""
    weights = v1.get_variable('weights', [3, 3], initializer=v1.ones_initializer())
    outputs = tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, tf.tanh(x @ weights)), (0, features['x']))[1]
    return tf.reduce_mean((outputs[:, 0] - labels) ** 2)


def by_adam(loss, step):
    return v1.train.AdamOptimizer(0.1).minimize(loss, step)


def by_clipped_adagrad(loss, step):
    optimizer = v1.train.AdagradOptimizer(0.3)
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    gradients, _ = tf.clip_by_global_norm(gradients, 0.1)
    return optimizer.apply_gradients(zip(gradients, variables), step)


def by_two_optimizers(loss, step):
    """Of TensorFlow 1 and of Keras, as in canned Estimators. The one of Keras leaves the scaling to the job."""
    first, *others = v1.trainable_variables()
    by_v1 = v1.train.AdagradOptimizer(0.3).minimize(loss, var_list=[first])
    scaled = loss / tf.distribute.get_strategy().num_replicas_in_sync
    by_keras = tf.keras.optimizers.legacy.Adam(0.1).get_updates(scaled, others) if others else []
    with tf.control_dependencies([by_v1, *by_keras]):
        return step.assign_add(1).op


def model_fn_of(loss_of, train_op_of):
    def model_fn(features, labels, mode, params, config):
        loss = loss_of(features, labels)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op_of(loss, v1.train.get_global_step()))

    return model_fn


def accumulated(model_fn, count, steps=STEPS, in_calls=False):
    """(losses, {name: value}) of steps that accumulate `count` batches."""
    with tf.Graph().as_default():
        v1.train.create_global_step()
        data = tf.data.Dataset.from_tensor_slices(batches(count * steps + count - 1))
        features, labels = v1.data.make_one_shot_iterator(micro_batches.whole_groups(data, count)).get_next()
        adds_up = accumulated_steps.Accumulation(count)
        spec = adds_up.of_model_fn(model_fn)(features, labels, TRAIN, {}, None)
        train_op = spec.train_op if isinstance(spec.train_op, tf.Operation) else spec.train_op.op
        step_graph.wait_for_batch([train_op, spec.loss.op])
        adds_up.build(train_op, None)
        losses = []
        fetches = [spec.train_op, spec.loss]
        if in_calls:
            steps_of_call = step_loop.make(spec.train_op, spec.loss, None)
            fetches = [steps_of_call.done, steps_of_call.losses]
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            with pytest.raises(tf.errors.OutOfRangeError):
                while True:
                    if in_calls:
                        losses += list(session.run(fetches, {steps_of_call.most: steps})[1])
                    else:
                        losses.append(session.run(fetches)[1])
            return losses, session.run({each.op.name: each for each in v1.global_variables()})


def expected(model_fn, count, steps=STEPS):
    """The same of plain sessions: `count` runs compute gradients, one applies their sum. The losses are scaled as for
    so many replicas."""
    given = []

    def noting(original):
        def apply_gradients(optimizer, pairs, *args, **kwargs):
            pairs = [(tf.convert_to_tensor(gradient), variable) for gradient, variable in pairs]
            given.extend((gradient, tf.identity(gradient)) for gradient, _ in pairs)
            applied = [(applied, variable) for (_, applied), (_, variable) in zip(given[-len(pairs) :], pairs)]
            return original(optimizer, applied, *args, **kwargs)

        return apply_gradients

    with tf.Graph().as_default():
        v1.train.create_global_step()
        data = batches(count * steps)
        features = {'x': v1.placeholder(tf.float32, [BATCH, 3]), 'id': v1.placeholder(tf.int64, [BATCH])}
        labels = v1.placeholder(tf.float32, [BATCH])
        default = tf.distribute.get_strategy()
        with (
            optimizer_parts.apply_gradients_replaced(noting),
            counted_replicas.times(count),
            counted_replicas.scaled_by_optimizers(),
        ):
            assert default.num_replicas_in_sync == count
            spec = model_fn(features, labels, TRAIN, {}, None)
        losses = []
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for step in range(steps):
                of_step = []
                for number in range(step * count, (step + 1) * count):
                    feeds = {features[name]: data[0][name][number] for name in features} | {labels: data[1][number]}
                    of_step.append(session.run([spec.loss, [gradient for gradient, _ in given]], feeds))
                losses.append(np.mean([loss for loss, _ in of_step]))
                sums = [np.sum(values, 0) for values in zip(*(gradients for _, gradients in of_step))]
                session.run(spec.train_op, feeds | dict(zip((applied for _, applied in given), sums)))
            return losses, session.run({each.op.name: each for each in v1.global_variables()})


@pytest.mark.parametrize('count', [2, 3])
@pytest.mark.parametrize('train_op_of', [by_adam, by_clipped_adagrad, by_two_optimizers])
@pytest.mark.parametrize('loss_of', [dense, sparse, with_a_loop])
def test_a_step_applies_the_sum_of_its_batches(loss_of, train_op_of, count):
    model_fn = model_fn_of(loss_of, train_op_of)
    (losses, weights), (plain_losses, plain_weights) = accumulated(model_fn, count), expected(model_fn, count)
    np.testing.assert_allclose(losses, plain_losses, rtol=1e-5)
    assert weights.keys() == plain_weights.keys()
    for name, value in weights.items():
        np.testing.assert_allclose(value, plain_weights[name], rtol=1e-5, atol=1e-6, err_msg=name)
    assert weights['global_step'] == STEPS


@pytest.mark.parametrize('loss_of', [dense, sparse, with_a_loop])
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
