"""Mends of MultiWorkerMirroredStrategy. TensorFlow's own import calls them: at its top this file uses nothing of it."""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from estimator_trainer.compat import lacks


def evaluate_alone(module: Any) -> None:
    """Lets the strategy of an evaluator that the cluster does not list span its own process only.

    Touches: CollectiveAllReduceExtended._initialize_strategy and _initialize_local
    Without it: MultiWorkerMirroredStrategy fails in an evaluator that is not in the `cluster` of TF_CONFIG
    For: every program
    """
    extended = module.CollectiveAllReduceExtended
    original, _ = extended._initialize_strategy, extended._initialize_local

    @functools.wraps(original)
    def initialize(self: Any, cluster_resolver: tf.distribute.cluster_resolver.ClusterResolver, devices: Any) -> None:
        listed = cluster_resolver.cluster_spec().as_dict()
        if cluster_resolver.task_type == 'evaluator' and 'evaluator' not in listed:
            self._initialize_local(cluster_resolver, devices=devices)
        else:
            original(self, cluster_resolver, devices)

    extended._initialize_strategy = initialize


def add_up_tables(cross_device_utils: Any) -> None:
    """Adds up tables in place of gathering rows of sparse gradients: tables have the same shape in every step.

    Touches: CollectiveReplicaLauncher.all_reduce_indexed_slices in tensorflow.python.distribute.cross_device_utils
    Without it: under MultiWorkerMirroredStrategy sparse gradients (embeddings, linear feature columns) fail in the
      second step: "Shape mismatch in the collective instance"
    For: every program

    Upstream gathers the rows of all workers. A collective operation of a graph expects the shape that it had in the
    first step, but the number of rows is another one in each step: it fails with "Shape mismatch in the collective
    instance". Here a step sends the whole table and takes the memory of two: for very large tables parameter servers
    are better.
    """
    launcher = cross_device_utils.CollectiveReplicaLauncher
    original, _ = launcher.all_reduce_indexed_slices, launcher.all_reduce

    @functools.wraps(original)
    def all_reduce_indexed_slices(self: Any, input_slices: tf.IndexedSlices, options: Any = None) -> tf.IndexedSlices:
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
