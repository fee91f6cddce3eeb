"""Reads variables that are averaged over all replicas, such as those of a BatchNormalization, in all tasks at once.

Touches: _get_cross_replica of variables that are averaged over replicas
Without it: a checkpoint of the chief alone waits for ever for the averages of other tasks
For: the trainer
"""

import contextlib

import tensorflow as tf


@contextlib.contextmanager
def read_beforehand(variables):
    """Reads those of the variables that are averaged over all replicas, which every task has to take part in.

    Inside of it they give these values without the other tasks. A checkpoint reads them in an order of its
    own: so only the chief has to save one. Every task must name the same variables in the same order.
    """
    of_all = [
        variable
        for variable in variables
        if variable.synchronization == tf.VariableSynchronization.ON_READ
        and isinstance(variable, tf.distribute.DistributedValues)
        and variable._get_cross_replica
    ]
    values = [variable.read_value() for variable in of_all]
    for variable, value in zip(of_all, values):
        variable._get_cross_replica = lambda value=value: value
    try:
        yield
    finally:
        for variable in of_all:
            del variable._get_cross_replica
