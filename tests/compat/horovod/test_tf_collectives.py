"""Operations that wait for each other all have a thread, however few the session was given."""

import threading

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.compat.horovod import collectives

v1 = tf.compat.v1
BOUND_SECS = 60


def meeting(count):
    """The result of an operation that waits until `count` of them run, for each of them."""
    barrier = threading.Barrier(count)

    def wait():
        barrier.wait(BOUND_SECS)
        return np.float32(1)

    def operation():
        collectives.count_operation()
        return tf.numpy_function(wait, [], tf.float32)

    return operation


@pytest.mark.parametrize('threads', [2, 0], ids=['two threads', "TensorFlow's default"])
def test_each_operation_of_a_graph_has_a_thread(threads):
    operation = meeting(count := 40)
    with tf.Graph().as_default():
        fetches = [operation() for _ in range(count - 1)]
        fetches.append(v1.cond(tf.constant(True), operation, lambda: np.float32(0)))
        with v1.Session(config=v1.ConfigProto(inter_op_parallelism_threads=threads)) as session:
            assert session.run(fetches) == [1] * count


def test_a_monitored_session_as_well():
    operation = meeting(count := 40)
    with tf.Graph().as_default():
        fetches = [operation() for _ in range(count)]
        with v1.train.MonitoredTrainingSession() as session:
            assert session.run(fetches) == [1] * count


def test_a_graph_with_one_of_them_has_the_session_that_was_asked_for():
    with tf.Graph().as_default() as graph:
        collectives.count_operation()
        config = v1.ConfigProto(inter_op_parallelism_threads=2)
        assert collectives.with_threads(graph, config) is config
