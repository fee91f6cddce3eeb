"""Sparse gradients under MultiWorkerMirroredStrategy: those of embeddings and linear feature columns.

Touches: CollectiveReplicaLauncher.all_reduce_indexed_slices in tensorflow.python.distribute.cross_device_utils
Without it: under MultiWorkerMirroredStrategy sparse gradients (embeddings, linear feature columns) fail in the second
  step: "Shape mismatch in the collective instance"
For: every program

Upstream gathers the rows of all workers. A collective operation of a graph expects the shape that it had in the first
step, but the number of rows is another one in each step: it fails with "Shape mismatch in the collective instance".
"""

import functools

import tensorflow as tf

from estimator_trainer.compat import lacks


def mend(cross_device_utils) -> None:
    """Adds up tables in place of gathering rows: tables have the same shape in every step.

    A step sends the whole table and takes the memory of two: for very large tables parameter servers are better.
    """
    launcher = cross_device_utils.CollectiveReplicaLauncher
    original, _ = launcher.all_reduce_indexed_slices, launcher.all_reduce

    @functools.wraps(original)
    def all_reduce_indexed_slices(self, input_slices, options=None):
        device = None
        with lacks.or_without():
            device = self._device
        if device is None or input_slices.dense_shape is None:  # nobody knows how many rows the table has
            return original(self, input_slices, options)
        with tf.device(device):
            rows = input_slices.dense_shape[0]
            table = tf.math.unsorted_segment_sum(input_slices.values, input_slices.indices, rows)
            times = tf.math.unsorted_segment_sum(
                tf.ones_like(input_slices.indices, tf.float32), input_slices.indices, rows
            )
            table, times = self.all_reduce(table, options=options), self.all_reduce(times, options=options)
            met = tf.where(times > 0)[:, 0]  # an optimizer leaves the other rows alone
            return tf.IndexedSlices(
                tf.gather(table, met), tf.cast(met, input_slices.indices.dtype), input_slices.dense_shape
            )

    launcher.all_reduce_indexed_slices = all_reduce_indexed_slices
