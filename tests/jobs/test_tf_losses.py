"""The loss of a step over replicas: worked examples, short batches, labels of several dimensions."""

import pytest
import tensorflow as tf

from estimator_trainer.jobs import job, keras_model_fn, losses

pytestmark = pytest.mark.usefixtures('tensor_shapes')
SUM, MEAN = tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN


def on_replicas(strategy, function, values, static=False):
    """`function(values[r])` of each replica r. As in a data set whose batches may be short, their size is
    not known beforehand, unless `static`."""

    def replica(value):
        shape = value.shape if static else [None, *value.shape[1:]]
        return function(tf.compat.v1.placeholder_with_default(value, shape))

    given = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(values[context.replica_id_in_sync_group], tf.float32)
    )
    return tf.function(lambda: strategy.run(replica, (given,)))()


@pytest.mark.parametrize('static', [True, False])
def test_the_worked_example(two, static):
    """Losses [2, 3] and [4, 5], global batch 4: 3.5. Each share is a sum over 4, and shares are summed;
    averaged over the replicas they would give half of it, 1.75."""
    shares = on_replicas(two, losses.share, [[2, 3], [4, 5]], static)
    assert [float(share) for share in two.experimental_local_results(shares)] == [1.25, 2.25]
    assert float(two.reduce(SUM, shares, axis=None)) == 3.5
    assert float(two.reduce(MEAN, shares, axis=None)) == 1.75


def test_a_short_batch_of_one_replica(two):
    """[2, 3] and [4]: the mean of three examples. A mean of the replicas' means would be 3.25."""
    shares = on_replicas(two, losses.share, [[2, 3], [4]])
    assert float(two.reduce(SUM, shares, axis=None)) == pytest.approx(3.0)


def test_a_replica_at_the_end_of_the_data(two):
    shares = on_replicas(two, losses.share, [[2, 3], []])
    assert float(two.reduce(SUM, shares, axis=None)) == pytest.approx(2.5)


def test_a_label_for_each_pixel(two):
    """One loss for each of 2 x 2 pixels: an example's is their mean. tf.nn.compute_average_loss of the
    pixels would sum them: four times as much."""
    pixels = [[[[1, 3], [2, 2]], [[3, 3], [3, 3]]], [[[4, 4], [4, 4]], [[5, 5], [5, 5]]]]
    shares = on_replicas(two, losses.share, pixels)
    assert float(two.reduce(SUM, shares, axis=None)) == 3.5
    naive = on_replicas(two, lambda v: tf.nn.compute_average_loss(v, global_batch_size=4), pixels)
    assert float(two.reduce(SUM, naive, axis=None)) == 14.0


def test_a_penalty_counts_once(two):
    shares = on_replicas(two, lambda v: losses.share(v, tf.constant(0.5)), [[2, 3], [4, 5]])
    assert float(two.reduce(SUM, shares, axis=None)) == 4.0


def test_estimators_optimizers_divide_by_the_replicas(two):
    given = on_replicas(two, lambda v: losses.of_replica(v, tf.constant(0.5)), [[2, 3], [4, 5]])
    assert float(two.reduce(SUM, given, axis=None)) / 2 == 4.0


def test_without_a_strategy():
    assert float(losses.share(tf.constant([2.0, 3.0, 4.0, 5.0]), tf.constant(0.5))) == 4.0
    assert float(losses.of_replica(tf.constant([2.0, 3.0, 4.0, 5.0]))) == 3.5


@pytest.mark.parametrize('penalty, is_warned_of', [(None, True), (lambda model, params: None, False)])
def test_losses_of_the_model_that_nothing_adds_are_warned_of_once(penalty, is_warned_of, caplog):
    losses.say_unused.cache_clear()
    parts = job.KerasParts(
        loss=lambda labels, outputs, params: (outputs[:, 0] - labels) ** 2,
        make_optimizer=lambda params: tf.keras.optimizers.legacy.SGD(0.1),
        penalty=penalty,
    )

    def make_model(params):
        inputs = tf.keras.Input([2])
        return tf.keras.Model(inputs, tf.keras.layers.Dense(1, kernel_regularizer='l2')(inputs))

    model_fn = keras_model_fn.make(make_model, parts)
    for _ in range(2):
        with tf.Graph().as_default():
            tf.compat.v1.train.create_global_step()
            model_fn(tf.ones([4, 2]), tf.zeros([4]), tf.estimator.ModeKeys.TRAIN, {})
    assert caplog.text.count('nothing adds them to the loss of the job') == is_warned_of
