"""Random changes to training images that are, like their order, a function of seed and position."""

import math

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


def turn(images, positions, num_examples, seed, degrees, zoom):
    """Turns each image about its middle by up to `degrees` either way, and makes it larger or smaller.

    Each epoch deals the angles and the sizes out evenly. Pixels are interpolated linearly; what comes in from outside
    is 0.

    Args:
        images: [batch, height, width, channels], uint8 or float.
        positions: int64 [batch], of the examples in the run.
        zoom: an image is enlarged by a factor between 1 - zoom and 1 + zoom.

    Returns:
        Images of the same shape and type.
    """

    def dealt(stream, most):  # float64 [batch], from -most to most
        rank = order.permuted(positions, num_examples, seed, stream=stream)
        return most * (2 * tf.cast(rank, tf.float64) / max(1, num_examples - 1) - 1)

    angle, size = dealt(2, math.radians(degrees)), 1 + dealt(3, zoom)
    # In float64: the cosine of a number may differ in its last digit with its place in the batch. Rounded to float32 it
    # does not, so that any number of workers sees the same pixels.
    cosine, sine = tf.cos(angle) / size, tf.sin(angle) / size
    middle_y, middle_x = ((tf.cast(tf.shape(images)[axis], tf.float64) - 1) / 2 for axis in (1, 2))
    zero = tf.zeros_like(cosine)
    # Where pixel (x, y) of the result is taken from: x' by the first row, y' by the second.
    rows = [
        *(cosine, -sine, middle_x - cosine * middle_x + sine * middle_y),
        *(sine, cosine, middle_y - sine * middle_x - cosine * middle_y),
        *(zero, zero),
    ]
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=images,
        transforms=tf.cast(tf.stack(rows, axis=1), tf.float32),
        output_shape=tf.shape(images)[1:3],
        fill_value=0.0,
        interpolation='BILINEAR',
        fill_mode='CONSTANT',
    )
