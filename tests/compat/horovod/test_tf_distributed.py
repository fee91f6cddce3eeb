"""compat.horovod.distributed: optimizers of Keras within others and in Estimators, with a made-up second rank."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.compat import lacks
from estimator_trainer.compat.horovod import distributed, hvd_tensorflow

KINDS = [tf.keras.optimizers.SGD, tf.keras.optimizers.legacy.SGD]


@pytest.fixture
def of_other_rank(monkeypatch):
    """Its gradients, one for each step, which a test fills in. An exchange takes the first, and gives the mean of both
    ranks."""
    left = []

    def mean(*own):
        other = np.float32(left.pop(0))
        return [(each + other) / np.float32(2) for each in own]

    def gradients_of_all(gradients, *_):
        means = tf.numpy_function(mean, gradients, [each.dtype for each in gradients])
        means = means if isinstance(means, (list, tuple)) else [means]
        for each, gradient in zip(means, gradients):
            each.set_shape(gradient.shape)
        return list(means)

    monkeypatch.setattr(distributed, 'gradients_of_all', gradients_of_all)
    return left


@pytest.mark.parametrize('make', KINDS)
@pytest.mark.parametrize('function', [tf.function, lambda step: step], ids=['in a function', 'at once'])
def test_all_ranks_leave_a_step_out_if_a_gradient_of_any_of_them_is_not_finite(of_other_rank, make, function):
    optimizer = hvd_tensorflow.DistributedOptimizer(make(0.1))
    optimizer = tf.keras.mixed_precision.LossScaleOptimizer(optimizer, initial_scale=4)
    weight, states = tf.Variable(1.0), []

    @function
    def step(gradient):
        with tf.GradientTape() as tape:
            loss = optimizer.get_scaled_loss(weight * gradient)
        gradients = optimizer.get_unscaled_gradients(tape.gradient(loss, [weight]))
        optimizer.apply_gradients(zip(gradients, [weight]))

    for own, other in [(1, np.inf), (np.inf, 1), (1, 3)]:
        of_other_rank.append(other)
        step(tf.constant(own, tf.float32))
        assert not of_other_rank  # also where the own gradient is not finite
        states.append((round(float(weight), 5), float(optimizer.loss_scale)))
    assert states == [(1.0, 2.0), (1.0, 1.0), (0.8, 1.0)]


@pytest.mark.parametrize('make', KINDS)
def test_an_optimizer_by_itself_exchanges_once_in_a_step(of_other_rank, make):
    weight, optimizer = tf.Variable(1.0), hvd_tensorflow.DistributedOptimizer(make(0.1))
    of_other_rank[:] = [3, 3]
    optimizer.apply_gradients([(tf.constant(1.0), weight)])
    assert len(of_other_rank) == 1 and round(float(weight), 5) == 0.8


@pytest.mark.parametrize('make', KINDS)
def test_passes_within_a_loss_scale_optimizer_are_refused(make):
    optimizer = hvd_tensorflow.DistributedOptimizer(make(0.1), backward_passes_per_step=2)
    optimizer = tf.keras.mixed_precision.LossScaleOptimizer(optimizer)
    with pytest.raises(ValueError, match='backward_passes_per_step=2 within a LossScaleOptimizer.*give 1'):
        optimizer.apply_gradients([(tf.constant(1.0), tf.Variable(1.0))])


def test_model_to_estimator_trains_on_the_data_of_all_ranks(of_other_rank, tmp_path):
    layer = tf.keras.layers.Dense(1, use_bias=False, kernel_initializer='ones', input_shape=[1])
    model = tf.keras.Sequential([layer])
    model.compile(hvd_tensorflow.DistributedOptimizer(tf.keras.optimizers.SGD(0.1)), 'mse')
    estimator = tf.keras.estimator.model_to_estimator(model, model_dir=str(tmp_path))
    of_other_rank.append(3)  # that of this rank is 0
    estimator.train(lambda: tf.data.Dataset.from_tensors(({model.input_names[0]: [[1.0]]}, [[1.0]])), steps=1)
    (kernel,) = (name for name in estimator.get_variable_names() if 'kernel' in name)
    assert not of_other_rank and estimator.get_variable_value(kernel).round(5).tolist() == [[np.float32(0.85)]]


def test_the_optimizer_within_a_loss_scale_optimizer_is_converted_as_well():
    inner = hvd_tensorflow.DistributedOptimizer(tf.keras.optimizers.SGD(0.1))
    convert = tf.keras.__internal__.optimizers.convert_to_legacy_optimizer
    inner = convert(tf.keras.mixed_precision.LossScaleOptimizer(inner)).inner_optimizer
    plain = convert(tf.keras.optimizers.SGD(0.1))
    assert isinstance(inner, type(plain)) and type(plain) is tf.keras.optimizers.legacy.SGD
    assert inner.accumulation_of_ranks and not hasattr(plain, 'accumulation_of_ranks')


def test_a_keras_that_converts_in_another_way_is_refused(monkeypatch):
    monkeypatch.delattr(tf.keras.__internal__.optimizers, 'convert_to_legacy_optimizer')
    with pytest.raises(lacks.Refused, match='convert_to_legacy_optimizer, and without it: tf.keras.estimator.model_to'):
        distributed.keep_in_estimators.__wrapped__()
