"""A job of its own data, one loop of which trains with another loss."""

import numpy as np
import tensorflow as tf

from estimator_trainer.data import array_batches
from estimator_trainer.jobs import Job, KerasParts, optimizers

_PARAMS = {
    'learning_rate': 0.1,
    'schedule': 'constant',
    'decay_epochs': '3',
    'decay_factor': 0.1,
    'warmup_steps': 0,
    'scale_rate_with_replicas': False,
    'wrong_from': -1,
}


def make_model(params):
    inputs = tf.keras.Input([4], name='x')
    seed = params['seed']
    hidden = tf.keras.layers.Dense(
        8, 'tanh', kernel_initializer=tf.keras.initializers.GlorotUniform(seed), name='hidden'
    )(inputs)
    outputs = tf.keras.layers.Dense(1, kernel_initializer=tf.keras.initializers.GlorotUniform(seed + 1), name='out')(
        hidden
    )
    return tf.keras.Model({'x': inputs}, outputs, name='small')


def input_fn(mode, params, input_context):
    values = np.random.RandomState(0).normal(size=[100, 4]).astype(np.float32)
    return array_batches({'x': values}, values.sum(1, keepdims=True), mode, params, input_context)


def loss(labels, outputs, params):
    return tf.square(labels - outputs)


def make_optimizer(params):
    if params['wrong_from'] >= 0 and tf.executing_eagerly():  # not where Estimator builds its graph
        return tf.keras.optimizers.legacy.SGD(Late(params['learning_rate'], params['wrong_from']))
    return optimizers.make('sgd', params)


class Late(tf.keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, rate, wrong_from):
        self._rate, self._wrong_from = rate, wrong_from

    def __call__(self, step):
        return self._rate * tf.where(step >= self._wrong_from, 1.1, 1.0)

    def get_config(self):
        return {}


job = Job(
    make_model=make_model,
    parts=KerasParts(loss=loss, make_optimizer=make_optimizer),
    input_fn=input_fn,
    params=_PARAMS,
    num_train_examples=100,
)
