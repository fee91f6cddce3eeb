"""Models of plain variables, whose speed must not be lost."""

import tensorflow as tf

from tests.differential import data
from tests.differential.building import adam, dense, job_of
from tests.differential.case import case

v1 = tf.compat.v1


@case(sample=True)
def linear():
    return job_of(dense)


@case()
def small_dnn():
    return job_of(lambda x: dense(dense(x, 8, 'hidden', tf.nn.relu)), train=adam)


@case(sample=True)
def cnn():
    def net(x):
        kernel = v1.get_variable('kernel', [3, 3, 2, 4])
        x = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, kernel, 1, 'SAME')), 2, 2, 'VALID')
        return dense(x)

    return job_of(net, data.images, train=adam)


@case()
def wide_and_deep_by_hand():
    def net(features):
        table = v1.get_variable('table', [12, 4])
        wide = v1.get_variable('wide', [12, 1], initializer=v1.zeros_initializer())
        deep = tf.reduce_mean(tf.nn.embedding_lookup(table, features['ids']), 1)
        return dense(tf.concat([deep, features['x']], 1)) + tf.reduce_sum(
            tf.nn.embedding_lookup(wide, features['ids']), 1
        )

    return job_of(net, data.words, train=adam)
