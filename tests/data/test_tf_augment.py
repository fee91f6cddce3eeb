"""data.augment.shift."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.data import augment, order

HEIGHT, WIDTH, N, SEED = 6, 9, 500, 3


def marked(n, dtype=np.uint8, channels=1):
    """Images whose pixels are all different, so that a shift can be read off."""
    one = 1 + np.arange(HEIGHT * WIDTH * channels).reshape(HEIGHT, WIDTH, channels)
    return np.broadcast_to(one.astype(dtype), (n, *one.shape))


def moved(image, down, right):
    """NumPy's word for it: pixel [y, x] of the result is [y + down, x + right] of the image."""
    result = np.zeros_like(image)
    for y in range(HEIGHT):
        for x in range(WIDTH):
            if 0 <= y + down < HEIGHT and 0 <= x + right < WIDTH:
                result[y, x] = image[y + down, x + right]
    return result


def shifts(positions, pixels, num_examples=N, seed=SEED):
    """[(down, right), ...] of these positions, each at most `pixels`; fails on anything else."""
    images = marked(len(positions))
    known = {
        moved(images[0], down, right).tobytes(): (down, right)
        for down in range(-pixels, pixels + 1)
        for right in range(-pixels, pixels + 1)
    }
    result = augment.shift(images, tf.constant(positions, tf.int64), num_examples, seed, pixels)
    return [known[image.tobytes()] for image in result.numpy()]


@pytest.mark.parametrize('dtype', [np.uint8, np.float32])
@pytest.mark.parametrize('channels, pixels', [(1, 1), (3, 2)])
def test_shape_and_type_stay_and_channels_move_together(dtype, channels, pixels):
    images = marked(4, dtype, channels)
    result = augment.shift(images, tf.range(4, dtype=tf.int64), N, SEED, pixels).numpy()
    assert result.shape == images.shape and result.dtype == dtype
    allowed = {
        moved(images[0], down, right).tobytes()
        for down in range(-pixels, pixels + 1)
        for right in range(-pixels, pixels + 1)
    }
    assert {image.tobytes() for image in result} <= allowed


@pytest.mark.parametrize('pixels', [1, 2])
def test_all_shifts_occur_and_their_mean_is_zero(pixels):
    found = shifts(range(N), pixels)
    assert len(set(found)) == (2 * pixels + 1) ** 2
    np.testing.assert_allclose(np.mean(found, axis=0), [0, 0], atol=0.02)


def test_each_example_is_shifted_differently_in_each_epoch():
    by_epoch = []
    for epoch in range(2):
        positions = range(epoch * N, (epoch + 1) * N)
        examples = order.permuted(tf.constant(positions, tf.int64), N, SEED).numpy()
        by_epoch.append(dict(zip(examples, shifts(positions, 2))))
    same = sum(by_epoch[0][example] == by_epoch[1][example] for example in range(N))
    assert same < 0.1 * N  # 1 in 25 by chance


def test_the_batch_split_does_not_matter_but_the_seed_does():
    whole = shifts(range(450, 550), 2)  # spans two epochs
    assert shifts(range(450, 480), 2) + shifts(range(480, 550), 2) == whole
    assert shifts(range(450, 550), 2, seed=SEED + 1) != whole
