"""Models of Keras 2 in HDF5, as Keras 3 takes them: layers whose configs have what Keras 3 refuses."""

import numpy as np
import pytest
import tensorflow as tf

from tests.tools.migrate.owned_modules import keras  # skips where there is no Keras 3

from estimator_trainer.tools.migrate import in_another_keras  # isort: skip

LAYERS = tf.keras.layers
SEQUENCE, IMAGE, FILM = (6, 4), (8, 8, 4), (3, 8, 8, 4)


def model_of(shape, *layers):
    return tf.keras.Sequential([tf.keras.Input(shape), *layers])


def a_small_unet():
    image = tf.keras.Input((8, 8, 3), name='image')
    down = LAYERS.Conv2D(4, 3, padding='same', use_bias=False)(image)
    down = LAYERS.ReLU()(LAYERS.BatchNormalization()(down))
    low = LAYERS.SpatialDropout2D(0.5)(LAYERS.SeparableConv2D(8, 3, padding='same')(LAYERS.MaxPool2D()(down)))
    up = LAYERS.Conv2DTranspose(4, 2, 2, name='up')(low)
    return tf.keras.Model(image, LAYERS.Conv2D(3, 1)(LAYERS.Concatenate()([up, down])), name='unet')


def attention():
    one, other = tf.keras.Input(SEQUENCE, name='one'), tf.keras.Input(SEQUENCE, name='other')
    return tf.keras.Model({'one': one, 'other': other}, LAYERS.Attention()([one, other]))


def attention_of_heads():
    """A model within gives the values, so that its call has to be found by name, and counted anew."""
    one, other = tf.keras.Input(SEQUENCE, name='one'), tf.keras.Input(SEQUENCE, name='other')
    values = model_of(SEQUENCE, LAYERS.Dense(4))(other)
    found = LAYERS.MultiHeadAttention(2, 3)(one, value=values, key=other)
    return tf.keras.Model({'one': one, 'other': other}, LAYERS.Add()([found, one]))


def convert(model, folder):
    """What Keras 3 predicts with the model, and what Keras 2 does."""
    model.set_weights([np.random.default_rng(0).normal(size=w.shape).astype(w.dtype) for w in model.get_weights()])
    given = model.input if isinstance(model.input, dict) else {'': model.input}
    random = np.random.default_rng(1)
    features = {name: random.normal(size=(2, *each.shape[1:])).astype('f4') for name, each in given.items()}
    np.savez(folder / 'features.npz', **features)
    save(model, folder)
    files = ('model.h5', 'model.keras', 'features.npz', 'predictions.npz')
    in_another_keras.main(*(str(folder / name) for name in files))
    return np.load(folder / 'predictions.npz')['arr_0'], model(features.get('', features), training=False)


def save(model, folder):
    path = str(folder / 'model.h5')
    model.save(path, save_format='h5', include_optimizer=False)
    return path


@pytest.mark.parametrize(
    'make',
    [
        a_small_unet,
        attention,
        attention_of_heads,
        lambda: model_of(SEQUENCE, LAYERS.Conv1DTranspose(3, 2)),
        lambda: model_of(FILM, LAYERS.Conv3DTranspose(3, 2)),
        lambda: model_of(FILM, LAYERS.TimeDistributed(LAYERS.Conv2DTranspose(3, 2))),
        lambda: model_of(IMAGE, model_of(IMAGE, LAYERS.Conv2DTranspose(3, 2))),
        lambda: model_of(SEQUENCE, LAYERS.DepthwiseConv1D(3), LAYERS.SeparableConv1D(3, 2)),
        lambda: model_of(IMAGE, LAYERS.DepthwiseConv2D(3)),
        lambda: model_of(SEQUENCE, LAYERS.LSTM(3, return_sequences=True), LAYERS.GRU(3)),
        lambda: model_of(SEQUENCE, LAYERS.Bidirectional(LAYERS.LSTM(3))),
        lambda: model_of(SEQUENCE, LAYERS.RNN([LAYERS.SimpleRNNCell(3), LAYERS.LSTMCell(2)])),
        lambda: model_of(FILM, LAYERS.ConvLSTM2D(3, 2, recurrent_activation='sigmoid')),
        lambda: model_of(SEQUENCE, LAYERS.Discretization([-0.5, 0.5])),
        lambda: model_of(IMAGE, LAYERS.RandomFlip(), LAYERS.RandomZoom(0.1), LAYERS.RandomContrast(0.1)),
    ],
)
def test_a_layer_without_what_keras_3_refuses_is_the_same(tmp_path, make):
    found, wanted = convert(make(), tmp_path)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize(
    'layer, shape, said',
    [
        (lambda: LAYERS.LSTM(3, time_major=True, name='read'), SEQUENCE, "'read', LSTM, has time_major=True"),
        (lambda: LAYERS.Conv2DTranspose(4, 2, groups=2), IMAGE, "'conv2d_transpose', Conv2DTranspose, has groups=2"),
        (
            lambda: LAYERS.LSTM(3, recurrent_activation='hard_sigmoid', name='hard_sigmoid'),
            SEQUENCE,
            "'hard_sigmoid', LSTM, has recurrent_activation='hard_sigmoid'",
        ),
    ],
)
def test_a_layer_that_would_be_another_one_is_refused(tmp_path, layer, shape, said):
    tf.keras.backend.clear_session()
    with pytest.raises(SystemExit, match='; ') as refusal:
        in_another_keras.mend(save(model_of(shape, layer()), tmp_path))
    assert str(refusal.value).startswith(f'the layer {said}, which ')


def test_a_layer_that_keras_3_has_not_is_refused(tmp_path):
    with pytest.raises(SystemExit) as refusal:
        convert(model_of(IMAGE, LAYERS.ThresholdedReLU(1.0)), tmp_path)
    assert (
        str(refusal.value) == f'Keras {keras.__version__} has no layer ThresholdedReLU; ReLU(threshold=…) is the same'
    )
