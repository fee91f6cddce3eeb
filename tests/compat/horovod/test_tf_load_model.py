"""hvd.load_model of horovod.tensorflow.keras: the model goes on from its file as one that was never saved."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.compat.horovod import hvd_keras

DATA = np.random.RandomState(0).normal(size=(16, 3)).astype(np.float32), np.ones([16, 1], np.float32)


class Slower(tf.keras.optimizers.legacy.SGD):
    """An optimizer of the program's own."""


def trained(model):
    model.fit(*DATA, batch_size=4, shuffle=False, verbose=0)
    return model


def state(model):
    """The weights, and the numbers of the optimizer without their order, which a file may change."""
    numbers = model.optimizer.variables
    numbers = numbers() if callable(numbers) else numbers
    return [
        *model.get_weights(),
        *sorted((np.asarray(each).ravel() for each in numbers), key=lambda each: each.tolist()),
    ]


@pytest.mark.parametrize(
    'make, name',
    [
        (tf.keras.optimizers.Adam, 'model.h5'),
        (tf.keras.optimizers.Adam, 'model.keras'),
        (tf.keras.optimizers.legacy.Adam, 'model.h5'),
        (Slower, 'model.h5'),
    ],
)
def test_a_loaded_model_goes_on_with_the_step_and_the_slots_of_its_optimizer(tmp_path, monkeypatch, make, name):
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=[3])])
    model.compile(make(0.01), 'mse')
    trained(model).save(tmp_path / name)
    loaded = hvd_keras.load_model(tmp_path / name, custom_optimizers=[Slower])
    assert int(loaded.optimizer.iterations) == 4 and type(loaded.optimizer).__name__ == make.__name__

    reduced = []
    monkeypatch.setattr(
        hvd_keras.hvd_tensorflow.distributed,
        'gradients_of_all',
        lambda gradients, *_: reduced.append(len(gradients)) or list(gradients),
    )
    for expected, found in zip(state(trained(model)), state(trained(loaded)), strict=True):
        np.testing.assert_allclose(found, expected, 1e-5, 1e-7)
    assert reduced and set(reduced) == {2}


def test_a_model_that_was_never_compiled_has_no_optimizer(tmp_path):
    tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=[3])]).save(tmp_path / 'model.h5')
    assert hvd_keras.load_model(str(tmp_path / 'model.h5')).optimizer is None
