"""Pieces that the jobs of the corpus are made of."""

import tensorflow as tf

from estimator_trainer.jobs import Job
from tests.differential import data

v1 = tf.compat.v1


def dense(x, units=1, name='out', activation=None, dtype=tf.float32):
    """A layer of plain variables."""
    x = tf.reshape(x, [tf.shape(x)[0], x.shape[1:].num_elements()])
    with v1.variable_scope(name, use_resource=True):
        kernel = v1.get_variable('kernel', [x.shape[1], units], dtype)
        bias = v1.get_variable('bias', [units], dtype, v1.zeros_initializer())
    y = x @ kernel + bias
    return activation(y) if activation else y


def sgd(loss, step):
    return v1.train.GradientDescentOptimizer(0.05).minimize(loss, step)


def adam(loss, step):
    return v1.train.AdamOptimizer(0.02).minimize(loss, step)


def squared(output, labels):
    return tf.reduce_mean(tf.square(tf.cast(output, tf.float32) - labels))


def model_fn_of(net, train=sgd, hooks=None, loss_of=squared, **of_spec):
    """A model_fn.

    Args:
        net: (features) -> [batch, 1].
        train: (loss, step) -> train_op.
        hooks: (loss, step) -> training_hooks.
        loss_of: (output, labels) -> the loss.
        of_spec: name -> () -> what the EstimatorSpec of training has by this name.
    """

    def model_fn(features, labels, mode):
        output = net(features)
        loss = loss_of(output, labels)
        if mode != tf.estimator.ModeKeys.TRAIN:
            return tf.estimator.EstimatorSpec(mode, loss=loss)
        v1.summary.scalar('twice', tf.reduce_sum(2 * loss))
        v1.summary.histogram('output', output)
        step = v1.train.get_global_step()
        given = {name: make() for name, make in of_spec.items()}
        train_op = train(loss, step)
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, train_op=train_op, training_hooks=hooks(loss, step) if hooks else (), **given
        )

    return model_fn


def job_of(net, batches=data.sequences, last=data.ENDLESS, **of_model):
    """A Job with a network and the batches of `data`."""
    return Job(model_fn=model_fn_of(net, **of_model), input_fn=data.input_of(batches, last))
