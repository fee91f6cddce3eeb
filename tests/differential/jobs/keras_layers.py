"""Layers of tf.keras that have weights or state."""

import tensorflow as tf

from tests.differential import data
from tests.differential.building import dense, job_of
from tests.differential.case import add, case

v1 = tf.compat.v1
layers = tf.keras.layers


def of_layers(batches, nets, **expected):
    """A job for each of these networks, with one dense layer behind it."""
    for name, net in nets.items():
        add(__name__, f'keras_{name}', lambda net=net: job_of(lambda x: dense(net(x)), batches), **expected)


class OwnCell(layers.Layer):
    state_size = output_size = 4

    def build(self, shape):
        self.kernel = self.add_weight(name='kernel', shape=[shape[-1] + 4, 4])

    def call(self, inputs, states):
        state = tf.tanh(tf.concat([inputs, states[0]], 1) @ self.kernel)
        return state, [state]


def masked(x):
    return tf.where(x[:, :, :1] > 0.5, tf.zeros_like(x), x)


def attended(x):
    return layers.MultiHeadAttention(2, 3)(x, x)


of_layers(data.sequences, {'lstm': lambda x: layers.LSTM(4)(x)}, sample=True)
of_layers(
    data.sequences,
    {
        'gru': lambda x: layers.GRU(4)(x),
        'gru_reset_before': lambda x: layers.GRU(4, reset_after=False)(x),
        'simple_rnn': lambda x: layers.SimpleRNN(4, return_sequences=True)(x),
        'rnn_of_gru_cell': lambda x: layers.RNN(layers.GRUCell(4))(x),
        'stacked_cells': lambda x: layers.RNN(layers.StackedRNNCells([layers.LSTMCell(3), layers.GRUCell(2)]))(x),
        'own_cell': lambda x: layers.RNN(OwnCell())(x),
        'bidirectional': lambda x: layers.Bidirectional(layers.LSTM(3))(x),
        'bidirectional_gru': lambda x: layers.Bidirectional(layers.GRU(3, return_sequences=True))(x),
        'backwards_lstm': lambda x: layers.LSTM(4, go_backwards=True, return_sequences=True)(x),
        'unrolled_lstm': lambda x: layers.LSTM(4, unroll=True)(x),
        'masked_lstm': lambda x: layers.LSTM(4)(layers.Masking()(masked(x))),
        'masked_bidirectional': lambda x: layers.Bidirectional(layers.GRU(3))(layers.Masking()(masked(x))),
        'two_lstms': lambda x: layers.LSTM(3)(layers.LSTM(4, return_sequences=True)(x)),
        'conv_lstm_1d': lambda x: layers.ConvLSTM1D(2, 2)(x[..., None]),
        'conv_lstm_2d': lambda x: layers.ConvLSTM2D(2, [2, 1])(x[..., None, None]),
        'time_distributed': lambda x: layers.TimeDistributed(layers.Dense(2, 'tanh'))(x),
        'conv_1d': lambda x: layers.Conv1D(3, 2)(x),
        'separable_conv_1d': lambda x: layers.SeparableConv1D(3, 2)(x),
        'locally_connected': lambda x: layers.LocallyConnected1D(2, 2)(x),
        'layer_normalization': lambda x: layers.LayerNormalization()(x),
        'attention': lambda x: layers.Attention(use_scale=True)([x, layers.Dense(3)(x)]),
        'additive_attention': lambda x: layers.AdditiveAttention()([x, layers.Dense(3)(x)]),
        'multi_head_attention': attended,
        'einsum_dense': lambda x: layers.EinsumDense('abc,cd->abd', [None, 2])(x),
        'prelu': lambda x: layers.PReLU()(x),
        'sequential': lambda x: tf.keras.Sequential([layers.Dense(4, 'relu'), layers.GRU(3)])(x),
    },
)
of_layers(
    data.sequences,
    {'stateful_lstm': lambda x: layers.LSTM(4, stateful=True)(tf.ensure_shape(x, [data.BATCH, data.TIME, data.DEPTH]))},
    replicas=False,  # Keras refuses it
)
of_layers(
    data.sequences,
    {
        # Not LSTM(dropout=…): its draws race with each other in plain TensorFlow, and no two runs are equal.
        'lstm_after_dropout': lambda x: layers.LSTM(4)(layers.Dropout(0.3)(x, training=True)),
        'dropout': lambda x: layers.Dropout(0.4)(x, training=True),
        'gaussian_noise': lambda x: layers.GaussianNoise(0.3)(x, training=True),
        'attention_with_dropout': lambda x: layers.MultiHeadAttention(2, 3, dropout=0.3)(x, x, training=True),
    },
    resumes=False,
    replicas=False,
)
of_layers(
    data.images,
    {
        'conv_2d': lambda x: layers.Conv2D(3, 3, activation='relu')(x),
        'conv_2d_transpose': lambda x: layers.Conv2DTranspose(2, 3)(x),
        'separable_conv_2d': lambda x: layers.SeparableConv2D(3, 3)(x),
        'depthwise_conv_2d': lambda x: layers.DepthwiseConv2D(3)(x),
        'batch_normalization': lambda x: layers.BatchNormalization()(x, training=True),
    },
)
of_layers(
    lambda number: (data.words(number)[0]['ids'], data.words(number)[1]),
    {
        'embedding': lambda ids: layers.Embedding(12, 4)(ids),
        'embedding_and_masked_lstm': lambda ids: layers.LSTM(4)(layers.Embedding(12, 4, mask_zero=True)(ids)),
    },
)


@case(sample=True, updates=True)
def keras_batch_normalization_with_updates():
    """Whose moving averages belong to the step."""

    def net(x):
        return dense(v1.layers.batch_normalization(v1.layers.conv2d(x, 3, 3), training=True, momentum=0.7))

    def train(loss, step):
        with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
            return v1.train.GradientDescentOptimizer(0.05).minimize(loss, step)

    return job_of(net, data.images, train=train)


@case()
def keras_functional_model():
    def net(x):
        given = tf.keras.Input([data.TIME, data.DEPTH])
        middle = layers.Concatenate()([layers.LSTM(3)(given), layers.Flatten()(layers.Conv1D(2, 2)(given))])
        return tf.keras.Model(given, layers.Dense(1)(middle))(x)

    return job_of(net)


@case()
def keras_model_with_losses():
    def net(x):
        layer = layers.Dense(4, kernel_regularizer=tf.keras.regularizers.L2(0.1))
        output = layer(x)
        v1.add_to_collection(v1.GraphKeys.REGULARIZATION_LOSSES, tf.add_n(layer.losses))
        return dense(output)

    def loss_of(output, labels):
        return tf.reduce_mean(tf.square(output - labels)) + v1.losses.get_regularization_loss()

    return job_of(net, loss_of=loss_of)
