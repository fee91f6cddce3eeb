"""Lets a session close at once if a strategy feeds devices.

Touches: multi_device_iterator_ops._create_device_dataset in tensorflow.python.data.ops
Without it: a session that a strategy feeds may take up to a minute to close, and the others take the worker for lost
For: every program

A strategy puts a data set of its own before each device. tf.data's autotuner is on there, even if the input_fn turns
it off. The autotuner has nothing to tune, and its thread sleeps for up to a minute. If its wake-up gets lost while the
iterator is destroyed, the session closes late. Meanwhile the worker does not answer, and the others take it for lost.
"""

import functools

import tensorflow as tf


def mend(module) -> None:
    """Turns the autotuner of these data sets off; `module` is that of `Estimator`."""
    from tensorflow.python.data.ops import multi_device_iterator_ops

    original = multi_device_iterator_ops._create_device_dataset

    @functools.wraps(original)
    def create(*args, **kwargs):
        options = tf.data.Options()
        options.autotune.enabled = False
        return original(*args, **kwargs).with_options(options)

    multi_device_iterator_ops._create_device_dataset = create
