"""Random changes to training images that are, like their order, a function of seed and position."""

import math

import tensorflow as tf

from estimator_trainer.data import order


def shift(images: tf.Tensor, positions: tf.Tensor, num_examples: int, seed: int, pixels: int) -> tf.Tensor:
    """Moves each image by up to `pixels` in both directions. Pixels from outside the image are 0.

    Args:
        images: [batch, height, width, channels].
        positions: the positions of the examples in the run, int64 [batch].
        num_examples: the number of training examples.
        seed: the seed of the run.
        pixels: the longest move, in pixels.

    Returns:
        Images of the same shape and type.
    """
    width = 2 * pixels + 1
    # The shifts follow from a permutation of the examples, which is not the one that orders them.
    shifts = order.permuted(positions, num_examples, seed, stream=1) % (width * width)
    height_in, width_in = tf.shape(images)[1], tf.shape(images)[2]
    padded = tf.pad(images, [[0, 0], [pixels, pixels], [pixels, pixels], [0, 0]])
    rows = tf.cast(shifts // width, tf.int32)[:, None] + tf.range(height_in)[None, :]
    columns = tf.cast(shifts % width, tf.int32)[:, None] + tf.range(width_in)[None, :]
    return tf.gather(tf.gather(padded, rows, batch_dims=1), columns, axis=2, batch_dims=1)


def turn(
    images: tf.Tensor, positions: tf.Tensor, num_examples: int, seed: int, degrees: float, zoom: float
) -> tf.Tensor:
    """Turns each image about its middle by up to `degrees` either way, and makes it larger or smaller.

    The angles and the sizes are spread evenly over the examples of an epoch. Pixels are interpolated linearly. Pixels
    from outside the image are 0.

    Args:
        images: [batch, height, width, channels], uint8 or float.
        positions: the positions of the examples in the run, int64 [batch].
        num_examples: the number of training examples.
        seed: the seed of the run.
        degrees: the largest angle.
        zoom: an image is enlarged by a factor between 1 - zoom and 1 + zoom.

    Returns:
        Images of the same shape and type.
    """

    def spread(stream: int, most: float) -> tf.Tensor:  # float64 [batch], from -most to most
        rank = order.permuted(positions, num_examples, seed, stream=stream)
        return most * (2 * tf.cast(rank, tf.float64) / max(1, num_examples - 1) - 1)

    angle, size = spread(2, math.radians(degrees)), 1 + spread(3, zoom)
    # Computed in float64, because the last digit of a cosine may depend on its place in the batch. After rounding to
    # float32 it does not, so any number of workers gets the same pixels.
    cosine, sine = tf.cos(angle) / size, tf.sin(angle) / size
    middle_y, middle_x = ((tf.cast(tf.shape(images)[axis], tf.float64) - 1) / 2 for axis in (1, 2))
    zero = tf.zeros_like(cosine)
    # Pixel (x, y) of the result is pixel (x', y') of the image. The first row gives x', the second y'.
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
