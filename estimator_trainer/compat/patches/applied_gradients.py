"""Calls a function of ours in place of `apply_gradients` of every optimizer.

Touches: apply_gradients of tf.compat.v1.train.Optimizer, tf.keras.optimizers.legacy.Optimizer and
  tf.compat.v1.train.SyncReplicasOptimizer
Without it: --sync_ps cannot apply the mean of all workers, and `migrate` cannot tell which optimizer trains what
For: the trainer and `migrate`
"""

import contextlib

import tensorflow as tf


@contextlib.contextmanager
def replaced(by, refuse=None):
    """Within it optimizers call by(original) in place of their apply_gradients.

    Args:
        by: (apply_gradients of a class) -> what takes its place.
        refuse: takes the place of that of a SyncReplicasOptimizer; None: that one is left alone.
    """
    v1 = tf.compat.v1.train
    patched = {kind: kind.apply_gradients for kind in (v1.Optimizer, tf.keras.optimizers.legacy.Optimizer)}
    refused = v1.SyncReplicasOptimizer.apply_gradients
    for kind, original in patched.items():
        kind.apply_gradients = by(original)
    if refuse:
        v1.SyncReplicasOptimizer.apply_gradients = refuse
    try:
        yield
    finally:
        for kind, original in patched.items():
            kind.apply_gradients = original
        v1.SyncReplicasOptimizer.apply_gradients = refused
