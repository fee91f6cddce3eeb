"""The example at position p of a run, as a function of the seed and p alone.

A run is one endless row of positions. The global batch of step k has the positions from k x global_batch on. Epoch e
has the positions from e x num_examples on, in a permutation of its own. So the batches are the same for any number of
workers, a run continues where it was interrupted, and each example occurs exactly once in each epoch, even if an epoch
ends inside a batch.
"""

import tensorflow as tf


def positions(
    element: tf.Tensor,
    batch_size: int,
    replicas_here: int,
    global_batch: int,
    offset: int,
    start_step: int,
    shift: int = 0,
) -> tf.Tensor:
    """The positions of one batch of a replica.

    Args:
        element: the number of the batch within this input pipeline, an int64 scalar. The replicas of the pipeline take
            batches in turn.
        batch_size: examples of a replica in a batch.
        replicas_here: replicas that this pipeline feeds.
        global_batch: positions that the whole cluster takes in one step.
        offset: where this pipeline's share of a global batch begins.
        start_step: the global step of element 0.
        shift: the number of trained positions minus step x global_batch. It is not 0 if the run had another global
            batch before.

    Returns:
        int64 [batch_size].
    """
    begins = start_step * global_batch + shift + offset
    if replicas_here == 1:  # a step that computes it itself has fewer operations
        first = element * global_batch + begins
    else:
        first = (element // replicas_here) * global_batch + begins + (element % replicas_here) * batch_size
    return first + tf.range(batch_size, dtype=tf.int64)


def permuted(positions: tf.Tensor, num_examples: int, seed: int, stream: int = 0) -> tf.Tensor:
    """The examples at these positions, int64 of the same shape.

    Each epoch is a permutation of 0..num_examples-1, which follows from (seed, epoch, stream). It is computed for all
    positions at once and without state (a Feistel cipher, see tf.random.experimental.index_shuffle). That public
    function takes one seed for all indices. The operation below it takes one for each, which a batch that spans two
    epochs needs.
    """
    epoch = tf.cast(positions // num_examples, tf.int32)
    of_run, of_stream = (
        tf.fill(tf.shape(epoch), tf.cast(tf.cast(number, tf.int64), tf.int32)) for number in (seed, stream)
    )
    return tf.raw_ops.RandomIndexShuffle(
        index=positions % num_examples,
        seed=tf.stack([of_run, epoch, of_stream], axis=-1),
        max_index=tf.constant(num_examples - 1, tf.int64),
    )
