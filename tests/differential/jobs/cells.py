"""Cells of TensorFlow 1 and what runs them."""

import tensorflow as tf

from tests.differential import data
from tests.differential.building import dense, job_of
from tests.differential.case import add

v1 = tf.compat.v1
cells = v1.nn.rnn_cell


def run(make):
    def net(x):
        outputs, _ = v1.nn.dynamic_rnn(make(), x, dtype=tf.float32)
        return dense(outputs)

    return net


def with_lengths(x):
    lengths = 1 + tf.cast(tf.reduce_sum(tf.abs(x), [1, 2]) * 7.0, tf.int32) % data.TIME
    return dense(v1.nn.dynamic_rnn(cells.GRUCell(4), x, lengths, dtype=tf.float32)[1])


def dropped_once():
    """The same mask at each time. Masks of a loop's iterations are drawn in no order, in plain TensorFlow too."""
    return cells.DropoutWrapper(cells.GRUCell(4), 0.7, 0.7, 0.7, True, input_size=data.DEPTH, dtype=tf.float32, seed=5)


def both_ways(x):
    outputs, _ = v1.nn.bidirectional_dynamic_rnn(cells.GRUCell(3), cells.GRUCell(3), x, dtype=tf.float32)
    return dense(tf.concat(outputs, 2))


def static(x):
    outputs, _ = v1.nn.static_rnn(cells.BasicLSTMCell(3), tf.unstack(x, axis=1), dtype=tf.float32)
    return dense(outputs[-1])


for name, net in {
    'basic_rnn_cell': run(lambda: cells.BasicRNNCell(4)),
    'basic_lstm_cell': run(lambda: cells.BasicLSTMCell(4)),
    'lstm_cell_with_peepholes': run(lambda: cells.LSTMCell(4, use_peepholes=True, num_proj=2)),
    'multi_rnn_cell': run(lambda: cells.MultiRNNCell([cells.GRUCell(3), cells.BasicLSTMCell(2)])),
    'residual_wrapper': run(lambda: cells.ResidualWrapper(cells.GRUCell(data.DEPTH))),
    'dynamic_rnn_with_lengths': with_lengths,
    'bidirectional_dynamic_rnn': both_ways,
    'static_rnn': static,
}.items():
    add(__name__, name, lambda net=net: job_of(net))
add(__name__, 'dropout_wrapper', lambda: job_of(run(dropped_once)), resumes=False, replicas=False)
