"""Random changes to training images that are, like their order, a function of seed and position."""

import tensorflow as tf

from estimator_trainer.data import order


def shift(images, positions, num_examples, seed, pixels):
    """Moves each image by up to `pixels` in both directions; what comes in from outside is 0.

    Args:
        images: [batch, height, width, channels].
        positions: int64 [batch], of the examples in the run.

    Returns:
        Images of the same shape and type.
    """
    width = 2 * pixels + 1
    # A permutation of the examples, other than the one that orders them, deals out the shifts.
    dealt = order.permuted(positions, num_examples, seed, stream=1) % (width * width)
    height_in, width_in = tf.shape(images)[1], tf.shape(images)[2]
    padded = tf.pad(images, [[0, 0], [pixels, pixels], [pixels, pixels], [0, 0]])
    rows = tf.cast(dealt // width, tf.int32)[:, None] + tf.range(height_in)[None, :]
    columns = tf.cast(dealt % width, tf.int32)[:, None] + tf.range(width_in)[None, :]
    return tf.gather(tf.gather(padded, rows, batch_dims=1), columns, axis=2, batch_dims=1)
