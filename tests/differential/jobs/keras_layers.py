"""Layers of tf.keras that have weights or state."""

import tensorflow as tf

from tests.differential.building import dense, job_of
from tests.differential.case import case

layers = tf.keras.layers


@case(sample=True, workers=True)
def keras_lstm():
    return job_of(lambda x: dense(layers.LSTM(4)(x)))


@case()
def keras_gru():
    return job_of(lambda x: dense(layers.GRU(4)(x)))


@case()
def keras_simple_rnn():
    return job_of(lambda x: dense(layers.SimpleRNN(4)(x)))


@case()
def keras_rnn_of_gru_cell():
    return job_of(lambda x: dense(layers.RNN(layers.GRUCell(4))(x)))


@case()
def keras_bidirectional():
    return job_of(lambda x: dense(layers.Bidirectional(layers.LSTM(3))(x)))
