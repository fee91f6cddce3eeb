"""--accumulate_steps where the batches of a step have different sizes: each example counts the same.

The expected values are those of NumPy over all examples of a step at once.
"""

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.jobs import losses
from estimator_trainer.training import accumulated_batches, accumulated_steps, step_graph, step_loop

v1 = tf.compat.v1
SIZES = [4, 4, 1, 2, 3, 3]  # of two steps
EXAMPLES = np.random.RandomState(3).normal(size=[sum(SIZES), 3]).astype(np.float32)
PENALTY = 0.25  # times the sum of the weights
FIRST = np.array([1, 2, 3], np.float32)


def expected(examples, weights):
    """The loss and its gradient: the mean of (x w)^2 over all examples, and the penalty once."""
    outputs = examples @ weights
    return np.mean(outputs**2) + PENALTY * weights.sum(), 2 * outputs @ examples / len(examples) + PENALTY


def batches(sizes):
    """A data set of (features, None) in batches of unknown size."""
    borders = np.cumsum([0, *sizes])
    return tf.data.Dataset.from_generator(
        lambda: ({'x': EXAMPLES[begin:end]} for begin, end in zip(borders, borders[1:])),
        output_signature={'x': tf.TensorSpec([None, 3])},
    )


def model_fn(features, labels, mode, params, config):
    weights = v1.get_variable('weights', initializer=tf.constant(FIRST))
    of_examples = tf.linalg.matvec(features['x'], weights) ** 2
    loss = losses.of_replica(params['losses'](of_examples), PENALTY * tf.reduce_sum(weights))
    train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def trained(count, of_losses=lambda given: given, in_calls=False, measured=True):
    """(losses, weights after each step, waits) of an Estimator's graph."""
    with tf.Graph().as_default():
        v1.train.create_global_step()
        features = v1.data.make_one_shot_iterator(batches(SIZES)).get_next()
        adds_up = accumulated_steps.Accumulation(count)
        spec = adds_up.of_model_fn(model_fn)(features, None, tf.estimator.ModeKeys.TRAIN, {'losses': of_losses}, None)
        step_graph.wait_for_batch([spec.train_op, spec.loss.op])
        wait = step_graph.measured_wait(step_graph.needed([spec.train_op, spec.loss.op])) if measured else None
        wait = adds_up.build(spec.train_op, wait)
        weights, waits, of_steps = [], [], []
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            if in_calls:
                calls = step_loop.make(spec.train_op, spec.loss, None)
                of_steps = session.run([calls.done, calls.losses], {calls.most: len(SIZES) // count})[1]
                return of_steps, [session.run(v1.trainable_variables())[0]], []
            for _ in range(len(SIZES) // count):
                values = session.run([spec.train_op, spec.loss, *([] if wait is None else [wait])])
                of_steps.append(values[1])
                waits += values[2:]
                weights.append(session.run(v1.trainable_variables())[0])
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run(spec.train_op)
        return of_steps, weights, waits


@pytest.mark.parametrize('measured', [True, False])
@pytest.mark.parametrize('count', [2, 3])
def test_each_example_of_an_estimators_step_counts_the_same(count, measured):
    of_steps, after, waits = trained(count, measured=measured)
    weights, begin = FIRST, 0
    for step, number in enumerate(range(0, len(SIZES), count)):
        end = begin + sum(SIZES[number : number + count])
        loss, gradient = expected(EXAMPLES[begin:end], weights)
        weights, begin = weights - 0.1 * gradient, end
        np.testing.assert_allclose(of_steps[step], loss, rtol=1e-5)
        np.testing.assert_allclose(after[step], weights, rtol=1e-5)
    assert len(waits) == len(of_steps) * measured and all(wait > 0 for wait in waits)


def test_calls_of_several_steps_compute_the_same_bits():
    of_steps, after, _ = trained(3)
    of_calls, (last,), _ = trained(3, in_calls=True)
    assert list(of_calls) == of_steps
    np.testing.assert_array_equal(last, after[-1])


def test_losses_of_parts_of_examples_cannot_be_counted():
    with pytest.raises(tf.errors.InvalidArgumentError, match='--accumulate_steps: a batch has not as many losses'):
        trained(3, of_losses=lambda given: tf.boolean_mask(given, given > 2))


def keras_step(strategy, batches_of_replicas, of_losses=lambda given: given):
    """([share of each replica], [gradient of each replica]) of one step."""
    with strategy.scope():
        weights = tf.Variable(FIRST)

    def of_batch(features, labels):
        with tf.GradientTape() as tape:
            of_examples = of_losses(tf.linalg.matvec(features['x'], weights) ** 2)
            share = losses.share(of_examples, PENALTY * tf.reduce_sum(weights))
        return share, [tape.gradient(share, weights)]

    def step(*of_replica):
        given = [v1.placeholder_with_default(examples, [None, 3]) for examples in of_replica]
        share, (gradient,) = accumulated_batches.added_up(of_batch, [({'x': each}, None) for each in given])
        return share, gradient

    given = [
        strategy.experimental_distribute_values_from_function(
            lambda context, number=number: tf.constant(batches_of_replicas[context.replica_id_in_sync_group][number])
        )
        for number in range(len(batches_of_replicas[0]))
    ]
    results = tf.function(lambda: strategy.run(step, given))()
    return [np.stack(strategy.experimental_local_results(each)) for each in results]


def test_each_example_of_a_keras_step_counts_the_same(two):
    of_replicas = [[EXAMPLES[:4], EXAMPLES[4:5], EXAMPLES[5:7]], [EXAMPLES[7:11], EXAMPLES[11:14], EXAMPLES[:0]]]
    shares, gradients = keras_step(two, of_replicas)
    loss, gradient = expected(EXAMPLES[:14], FIRST)
    np.testing.assert_allclose(shares.sum(), loss, rtol=1e-5)
    np.testing.assert_allclose(gradients.sum(0), gradient, rtol=1e-5)


def test_losses_of_parts_of_examples_cannot_be_counted_in_a_keras_step(two):
    with pytest.raises(tf.errors.InvalidArgumentError, match='--accumulate_steps: a batch has not as many losses'):
        keras_step(two, [[EXAMPLES[:4], EXAMPLES[:4]]] * 2, lambda given: tf.boolean_mask(given, given > 2))
