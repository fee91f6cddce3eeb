"""compat.agreement: numbers that one task has said, out of the sums of all tasks."""

import types

import tensorflow as tf

from estimator_trainer.compat.agreement import Participant


def participant():
    return Participant(types.SimpleNamespace(sums=[1.0, 4.0, 8.0]), list, slice(1, 3))


def test_with_parameter_servers_there_is_no_strategy():
    assert participant().numbers() == [4, 8]


def test_each_replica_of_a_task_adds_what_the_task_says():
    with tf.distribute.MirroredStrategy(['CPU:0']).scope():
        assert participant().numbers() == [4, 8]
