"""As vision programs of 2017 look: slim and arg_scope, batch norm by update ops, towers of variables, own sessions."""

from __future__ import print_function

import json
import sys

import numpy as np
import tensorflow as tf
import tensorflow.contrib.slim as slim
from tensorflow.contrib.framework.python.ops import add_arg_scope, arg_scope
from tensorflow.python.training import moving_averages


@add_arg_scope
def block(x, depth, scope=None):
    with tf.variable_scope(scope, 'block', [x]):
        shortcut = slim.conv2d(x, depth, [1, 1], activation_fn=None, normalizer_fn=None, scope='shortcut')
        residual = slim.conv2d(x, depth, [3, 3], scope='conv1')
        return tf.nn.relu(shortcut + slim.conv2d(residual, depth, [3, 3], activation_fn=None, scope='conv2'))


def network(images, is_training):
    scope = arg_scope(
        [slim.conv2d],
        weights_initializer=slim.variance_scaling_initializer(seed=1),
        weights_regularizer=slim.l2_regularizer(1e-4),
        normalizer_fn=slim.batch_norm,
    )
    with scope, slim.arg_scope([slim.batch_norm], is_training=is_training, decay=0.9):
        x = slim.conv2d(images, 8, [3, 3], scope='conv0')
        x = slim.max_pool2d(slim.repeat(x, 2, block, 8, scope='blocks'), [2, 2], scope='pool')
        x = tf.reduce_mean(x, [1, 2], keep_dims=True, name='global_pool')
        return tf.squeeze(slim.conv2d(x, 3, [1, 1], activation_fn=None, normalizer_fn=None, scope='logits'), [1, 2])


def main(_):
    random = np.random.RandomState(0)
    labels = random.randint(0, 3, 96)
    images = random.rand(96, 8, 8, 1).astype('float32') * 0.2
    for number, label in enumerate(labels):
        images[number, 2 * label : 2 * label + 3, :, 0] += 1.0
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        image_input = tf.placeholder(tf.float32, [None, 8, 8, 1])
        label_input, is_training = tf.placeholder(tf.int32, [None]), tf.placeholder_with_default(False, [])
        logits = network(image_input, is_training)
        slim.losses.sparse_softmax_cross_entropy(logits, label_input)
        loss = slim.losses.get_total_loss()
        step = slim.get_or_create_global_step()
        rate = tf.train.exponential_decay(0.05, step, 20, 0.5, staircase=True)
        optimizer = tf.train.MomentumOptimizer(rate, 0.9)
        train_op = slim.learning.create_train_op(loss, optimizer, global_step=step, clip_gradient_norm=5.0)
        average = tf.get_variable('average_loss', [], trainable=False, initializer=tf.zeros_initializer())
        with tf.control_dependencies([train_op]):
            train_op = moving_averages.assign_moving_average(average, loss, 0.9, zero_debias=False)
        accuracy = tf.reduce_mean(tf.to_float(tf.equal(tf.argmax(logits, 1, output_type=tf.int32), label_input)))
        saver = tf.train.Saver(slim.get_variables_to_restore())
        with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            for number in range(30):
                rows = slice(32 * (number % 3), 32 * (number % 3) + 32)
                feed = {image_input: images[rows], label_input: labels[rows], is_training: True}
                session.run(train_op, feed)
            path = saver.save(session, sys.argv[1] + '/model.ckpt', global_step=step)
        with tf.Session() as session:
            saver.restore(session, path)
            feed = {image_input: images, label_input: labels}
            found = session.run({'accuracy': accuracy, 'loss': loss, 'average': average, 'step': step}, feed)
    print('RESULT', json.dumps({name: float(value) for name, value in sorted(found.items())}))


if __name__ == '__main__':
    tf.gfile.MakeDirs(sys.argv[1])
    tf.app.run()
