"""Which steps are so short that one thread takes them, and that it does."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.compat.patches import estimators
from estimator_trainer.training.step_part import Part
from tests.training import test_tf_from_memory
from tests.training.test_tf_from_memory import train  # noqa: F401 a fixture

v1 = tf.compat.v1


def dense(batch=8, width=6, units=5):
    examples = v1.get_variable('examples', [100_000, width], initializer=v1.zeros_initializer(), trainable=False)
    chosen = tf.gather(examples.read_value(), tf.range(batch))
    return tf.nn.dropout(chosen @ v1.get_variable('weights', [width, units]), rate=0.1)


def convolution():
    image = v1.get_variable('image', [1, 8, 8, 1], trainable=False)
    return tf.nn.conv2d(image, v1.get_variable('filters', [3, 3, 1, 2]), 1, 'SAME')


def many_numbers():
    return dense(batch=50_000)


def many_multiplications():
    return dense(batch=100, width=1000, units=100)


def unknown_size():
    return dense() + tf.reduce_sum(v1.placeholder_with_default(tf.ones([3]), [None]) * 1.0)


def python(stateful=True):
    one = tf.numpy_function(lambda: np.float32(1), [], tf.float32, stateful=stateful)
    return dense() + tf.ensure_shape(one, [])


def python_without_state():
    return python(stateful=False)


def loop():
    return tf.while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, tf.tanh(x)), (0, dense()))[1]


def queue():
    waiting = tf.queue.FIFOQueue(1, [tf.float32], [[]])
    with tf.control_dependencies([waiting.enqueue(1.0)]):
        return dense() + waiting.dequeue()


def words():
    return dense() + tf.cast(tf.strings.length(tf.as_string(v1.get_variable('number', []))), tf.float32)


@pytest.mark.parametrize(
    'layer, expected',
    [
        (dense, True),
        (convolution, False),
        (many_numbers, False),
        (many_multiplications, False),
        (unknown_size, False),
        (python, False),
        (python_without_state, False),
        (loop, False),
        (queue, False),
        (words, False),
    ],
)
def test_is_short(layer, expected):
    with tf.Graph().as_default() as graph:
        loss = tf.reduce_mean(tf.square(layer()))
        optimizer = v1.train.AdamOptimizer(0.1)
        train_op = optimizer.minimize(loss, v1.train.get_or_create_global_step())
        assert Part(graph, [train_op]).is_short() == expected


@pytest.mark.parametrize('flags, expected', [((), [-1]), (('--inter_op_threads=2',), []), (('--num_replicas=2',), [])])
def test_one_thread_takes_short_steps(train, monkeypatch, flags, expected):  # noqa: F811 a fixture
    """It does unless --inter_op_threads says otherwise. That the weights are the same, test_tf_from_memory shows."""
    change_session, threads = estimators.change_session, []

    def noted(estimator, change):
        change_session(estimator, change)
        threads.append(estimator.config.session_config.inter_op_parallelism_threads)

    monkeypatch.setattr(estimators, 'change_session', noted)
    train('run', 3, True, f'--job={test_tf_from_memory.__name__}:job', *flags)
    assert threads == expected
