"""data.image_dataset: shifts and turns."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.data import image_dataset, order

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
    result = image_dataset.shift(images, tf.constant(positions, tf.int64), num_examples, seed, pixels)
    return [known[image.tobytes()] for image in result.numpy()]


@pytest.mark.parametrize('dtype', [np.uint8, np.float32])
@pytest.mark.parametrize('channels, pixels', [(1, 1), (3, 2)])
def test_shape_and_type_stay_and_channels_move_together(dtype, channels, pixels):
    images = marked(4, dtype, channels)
    result = image_dataset.shift(images, tf.range(4, dtype=tf.int64), N, SEED, pixels).numpy()
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


def turned(images, positions, degrees, zoom, seed=SEED):
    return image_dataset.turn(images, tf.constant(positions, tf.int64), N, seed, degrees, zoom).numpy()


def by_numpy(image, angle, size):
    """NumPy's word for it, for one image of one channel: linear interpolation, 0 outside."""
    height, width = image.shape[:2]
    middle_y, middle_x = (height - 1) / 2, (width - 1) / 2
    padded = np.pad(image[..., 0].astype(float), 1)
    result = np.zeros((height, width))
    for y in range(height):
        for x in range(width):
            dx, dy = (x - middle_x) / size, (y - middle_y) / size
            from_x = middle_x + np.cos(angle) * dx - np.sin(angle) * dy
            from_y = middle_y + np.sin(angle) * dx + np.cos(angle) * dy
            left, top = int(np.floor(from_x)), int(np.floor(from_y))
            if -1 <= left < width and -1 <= top < height:
                right, down = from_x - left, from_y - top
                corners = padded[top + 1 : top + 3, left + 1 : left + 3]
                result[y, x] = (1 - down) * (1 - right) * corners[0, 0] + (1 - down) * right * corners[0, 1]
                result[y, x] += down * (1 - right) * corners[1, 0] + down * right * corners[1, 1]
    return result


def dealt(positions, stream):
    """From -1 to 1, for each position."""
    return 2 * order.permuted(tf.constant(positions, tf.int64), N, SEED, stream=stream).numpy() / (N - 1) - 1


@pytest.mark.parametrize('degrees, zoom', [(30.0, 0.0), (0.0, 0.3), (15.0, 0.1)])
def test_turns_are_those_of_numpy(degrees, zoom):
    images = np.random.default_rng(1).uniform(0, 255, (20, HEIGHT, WIDTH, 1)).astype(np.float32)
    result = turned(images, range(20), degrees, zoom)
    angles, sizes = np.radians(degrees) * dealt(range(20), 2), 1 + zoom * dealt(range(20), 3)
    for image, after, angle, size in zip(images, result, angles, sizes):
        np.testing.assert_allclose(after[..., 0], by_numpy(image, angle, size), atol=0.05)


def test_nothing_to_turn_leaves_the_pixels():
    images = marked(4)
    np.testing.assert_array_equal(turned(images, range(4), 0.0, 0.0), images)


@pytest.mark.parametrize('dtype', [np.uint8, np.float32])
def test_turned_images_keep_shape_and_type_and_channels_turn_together(dtype):
    images = np.repeat(marked(4, dtype), 3, axis=-1)
    result = turned(images, range(4), 20.0, 0.2)
    assert result.shape == images.shape and result.dtype == dtype
    np.testing.assert_array_equal(result[..., 0], result[..., 2])


def test_the_batch_split_does_not_matter_to_the_last_bit_of_a_turn():
    images = marked(100, np.float32)
    whole = turned(images, range(450, 550), 15.0, 0.1)  # spans two epochs
    for size in (1, 3, 7, 30):
        parts = [turned(images[i : i + size], range(450, 550)[i : i + size], 15.0, 0.1) for i in range(0, 100, size)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert (turned(images, range(450, 550), 15.0, 0.1, seed=SEED + 1) != whole).any()
