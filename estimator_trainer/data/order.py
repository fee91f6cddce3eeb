"""Which example stands at position p of a run: a function of the seed and p alone.

A run is one endless row of positions. The global batch of step k holds the positions from
k x global_batch on; epoch e holds those from e x num_examples on, in a permutation of its own. So the
batches are the same for any number of workers, a run continues where it was interrupted, and each
example occurs exactly once in each epoch, also where an epoch ends inside a batch.
"""

import tensorflow as tf


def positions(element, batch_size, replicas_here, global_batch, offset, start_step, shift=0):
    """The positions of one per-replica batch.

    Args:
        element: int64 scalar tensor, the number of the batch within this input pipeline. Batches go
            to the pipeline's replicas in turn.
        batch_size: per replica.
        replicas_here: replicas that this pipeline feeds.
        global_batch: positions that the whole cluster takes in one step.
        offset: where this pipeline's share of a global batch begins.
        start_step: the global step of element 0.
        shift: positions that were taken beyond step x global_batch, while the global batch was another.

    Returns:
        int64 [batch_size].
    """
    step = start_step + element // replicas_here
    first = step * global_batch + shift + offset + (element % replicas_here) * batch_size
    return first + tf.range(batch_size, dtype=tf.int64)


def permuted(positions, num_examples, seed, stream=0):
    """The examples at these positions, int64 of the same shape: for each epoch a permutation of
    0..num_examples-1, chosen by (seed, epoch, stream).

    Stateless, and computed for all positions at once (a Feistel cipher, see
    tf.random.experimental.index_shuffle). The public function takes one seed for all indices; the op
    below it takes one for each, which a batch that spans two epochs needs.
    """
    epoch = positions // num_examples
    seeds = tf.stack(
        [tf.fill(tf.shape(epoch), tf.cast(seed, tf.int64)), epoch, tf.fill(tf.shape(epoch), tf.cast(stream, tf.int64))],
        axis=-1,
    )
    return tf.raw_ops.RandomIndexShuffle(
        index=positions % num_examples, seed=tf.cast(seeds, tf.int32), max_index=tf.constant(num_examples - 1, tf.int64)
    )
