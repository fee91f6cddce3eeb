"""A job that says something by every way there is, once in each task that trains."""

import logging

import tensorflow as tf
from absl import logging as absl_logging

from estimator_trainer.jobs import Job

# What each line ends with, and how often a task that trains prints it.
LINES = ('tf-info', 'tf-warning', 'absl-info', 'absl-warning', 'root-info', 'root-warning', 'own-info', 'got-info')


def input_fn(mode, params):
    data = tf.data.Dataset.from_tensor_slices(({'x': tf.ones([64, 3])}, tf.zeros([64, 1]))).batch(8)
    return data.repeat() if mode == 'train' else data


def speak():
    tf.compat.v1.logging.info('says tf-info')
    tf.compat.v1.logging.warning('says tf-warning')
    absl_logging.info('says absl-info')
    absl_logging.warning('says absl-warning')
    logging.info('says root-info')
    logging.warning('says root-warning')
    logging.getLogger('mine').info('says own-info')
    tf.get_logger().info('says got-info')
    print('says print')


def model_fn(features, labels, mode, params=None):
    hooks = []
    y = tf.compat.v1.layers.dense(features['x'], 1)
    loss = tf.reduce_mean((y - labels) ** 2)
    if mode == 'train':
        speak()
        hooks = [tf.estimator.LoggingTensorHook({'the_loss': loss}, every_n_iter=100)]
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)
    train_op = optimizer.minimize(loss, tf.compat.v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=hooks)


job = Job(model_fn=model_fn, input_fn=input_fn)
