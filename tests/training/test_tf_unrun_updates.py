"""unrun_updates: averages that nobody moves are found, and no other variable is taken for one."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.training import unrun_updates

v1 = tf.compat.v1
TRAIN = tf.estimator.ModeKeys.TRAIN


def spec_of(make, hooks=(), scaffold=None):
    """A training step whose loss is of what `make` gives for a batch: its outputs, and operations that the step waits
    for or None."""
    batch = v1.data.make_one_shot_iterator(tf.data.Dataset.from_tensors(np.ones([4, 3], np.float32)).repeat())
    outputs, waits_for, *others = make(batch.get_next())
    loss = tf.reduce_mean(v1.layers.dense(outputs, 1, name='logits') ** 2)
    step, variables = v1.train.get_or_create_global_step(), others[0]() if others else None
    with tf.control_dependencies(waits_for or []):
        train_op = v1.train.AdamOptimizer(0.1).minimize(loss, step, variables)
    return tf.estimator.EstimatorSpec(TRAIN, loss=loss, train_op=train_op, scaffold=scaffold)


def unmoved(make, *hooks):
    with tf.Graph().as_default():
        updates = unrun_updates.unrun(unrun_updates._targets(spec_of(make)), hooks)
        return sorted({unrun_updates._assigned(op) for op in updates})


def keras_norm(**kwargs):
    return tf.keras.layers.BatchNormalization(name='norm', **kwargs)


def left_alone(x):
    return keras_norm()(x, training=True), None


def of_v1(x):
    return v1.layers.batch_normalization(x, training=True, name='norm'), None


def without_weights(x):
    return keras_norm(center=False, scale=False)(x, training=True), None


def in_a_model(x):
    model = tf.keras.Sequential([keras_norm(), tf.keras.layers.Dense(2)])
    return model(x, training=True), None


AVERAGES = ['norm/moving_mean', 'norm/moving_variance']


@pytest.mark.parametrize('make', [left_alone, of_v1, without_weights, in_a_model])
def test_averages_that_nobody_moves(make):
    assert [name.removeprefix('sequential/') for name in unmoved(make)] == AVERAGES


def test_an_average_of_weights_that_nobody_moves():
    def make(x):
        kernel = v1.get_variable('kernel', [3, 3])
        tf.train.ExponentialMovingAverage(0.9).apply([kernel])
        return x @ kernel, None

    assert unmoved(make) == ['kernel/ExponentialMovingAverage']


def test_the_state_of_a_layer_that_nobody_moves():
    def make(x):
        state = v1.get_variable('memory/state', [4, 3], initializer=v1.zeros_initializer(), trainable=False)
        new = 0.5 * state + x
        state.assign(new)
        return new, None

    assert unmoved(make) == ['memory/state']


def run_of_keras(x):
    norm = keras_norm()
    return norm(x, training=True), norm.updates


def run_of_v1(x):
    return of_v1(x)[0], v1.get_collection(v1.GraphKeys.UPDATE_OPS)


def one_of_two_calls_run(x):
    norm = keras_norm()
    once = norm(x, training=True)
    updates = list(norm.updates)
    return once + norm(2 * x, training=True), updates


def not_in_training(x):
    return keras_norm()(x, training=False) + v1.layers.batch_normalization(x), None


def frozen_of_keras(x):
    norm = keras_norm()
    norm.trainable = False
    return norm(x, training=True), None


def frozen_of_v1(x):
    return v1.layers.batch_normalization(x, training=True, trainable=False), None


def frozen_by_the_optimizer(x):
    return of_v1(x)[0], None, lambda: v1.trainable_variables('logits')


def of_an_unknown_phase(x):
    return keras_norm()(x), None


def averages_of_weights(x):
    kernel = v1.get_variable('kernel', [3, 3])
    return x @ kernel, [tf.train.ExponentialMovingAverage(0.9).apply([kernel])]


def metrics(x):
    v1.metrics.mean(x)
    mean = tf.keras.metrics.Mean()
    mean.update_state(x)
    tf.keras.metrics.AUC().update_state(x > 0, x * 0)
    return x, None


def initial_values_and_copies(x):
    kernel = v1.get_variable('kernel', [3, 3])
    v1.get_variable('like', initializer=kernel * 2.0, trainable=False)
    kept = v1.get_variable('kept', [3, 3], trainable=False)
    kept.assign(kernel)
    kernel.assign(kept)
    return x @ kernel, None


def tables(x):
    table = tf.lookup.experimental.DenseHashTable(tf.int64, tf.float32, 0.0, -1, -2)
    table.insert(tf.cast(x[:, 0], tf.int64), x[:, 0])
    return x, None


def counters(x):
    v1.get_variable('examples', [], tf.int64, v1.zeros_initializer(), trainable=False).assign_add(tf.size(x, tf.int64))
    v1.get_variable('calls', [], initializer=v1.zeros_initializer(), trainable=False).assign_add(1.0)
    return x, None


def local_variables(x):
    v1.get_local_variable('sum', [], initializer=v1.zeros_initializer()).assign_add(tf.reduce_sum(x))
    return x, None


def in_a_summary(x):
    total = v1.get_variable('total', [], initializer=v1.zeros_initializer(), trainable=False)
    v1.summary.scalar('total', total.assign_add(tf.reduce_sum(x)))
    return x, None


@pytest.mark.parametrize(
    'make',
    [
        run_of_keras,
        run_of_v1,
        one_of_two_calls_run,
        not_in_training,
        frozen_of_keras,
        frozen_of_v1,
        frozen_by_the_optimizer,
        of_an_unknown_phase,
        averages_of_weights,
        metrics,
        initial_values_and_copies,
        tables,
        counters,
        local_variables,
        in_a_summary,
    ],
)
def test_no_false_alarm(make):
    assert unmoved(make) == []


class Own(tf.estimator.SessionRunHook):
    pass


def test_a_hook_that_may_run_the_updates():
    assert unmoved(left_alone, Own()) == []
    assert unmoved(left_alone, v1.train.StepCounterHook()) == AVERAGES
    with tf.Graph().as_default():
        spec = spec_of(left_alone)
        updates = unrun_updates.unrun(unrun_updates._targets(spec))
        logging_hook = v1.train.LoggingTensorHook({'it': updates[0]}, 1)
        assert len(unrun_updates.unrun(unrun_updates._targets(spec), [logging_hook])) < len(updates)


@pytest.mark.parametrize('make, cure', [(left_alone, '(layer.updates), with the Keras layer'), (of_v1, 'UPDATE_OPS))')])
def test_what_is_said(make, cure, caplog):
    with tf.Graph().as_default():
        unrun_updates.warn(spec_of(make), [])
    (record,) = caplog.records
    assert 'nobody runs the operations that update norm/moving_mean, norm/moving_variance: ' in record.message
    assert cure in record.message and 'docs/recipes.md' in record.message


COLUMNS = [tf.feature_column.numeric_column('x', [3])]


def canned():
    yield 'dnn', tf.estimator.DNNClassifier([4], COLUMNS, batch_norm=True, optimizer='Adagrad')
    yield 'dnn of v1', v1.estimator.DNNClassifier([4], COLUMNS, batch_norm=True)
    wide_and_deep = dict(linear_feature_columns=COLUMNS, dnn_feature_columns=COLUMNS, dnn_hidden_units=[4])
    yield 'wide and deep', tf.estimator.DNNLinearCombinedClassifier(batch_norm=True, **wide_and_deep)
    yield 'linear', tf.estimator.LinearClassifier(COLUMNS, optimizer='Adam')
    yield 'k-means', v1.estimator.experimental.KMeans(2, feature_columns=COLUMNS, use_mini_batch=True)


def test_canned_estimators_run_their_updates(tmp_path):
    for name, estimator in canned():
        with tf.Graph().as_default():
            v1.train.create_global_step()
            batch = ({'x': np.ones([4, 3], np.float32)}, np.zeros([4, 1], np.int64))
            features, labels = v1.data.make_one_shot_iterator(tf.data.Dataset.from_tensors(batch)).get_next()
            spec = estimator.model_fn(features, None if name == 'k-means' else labels, TRAIN, estimator.config)
            hooks = [*spec.training_hooks, *spec.training_chief_hooks]
            assert not unrun_updates.unrun(unrun_updates._targets(spec), hooks), name


def test_a_hook_may_have_tensors_as_keys():
    with tf.Graph().as_default():
        loss, accuracy = tf.constant(1.0), tf.constant(0.5)
        hook = tf.estimator.LoggingTensorHook([loss, accuracy], every_n_iter=100)
        assert set(unrun_updates._held_by([hook])) == {loss.op, accuracy.op}
