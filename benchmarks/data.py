"""Arrays in memory that ours and the peers train on, made from a seed. Imports no TensorFlow."""

import pathlib

import numpy as np

BATCHES = {'cnn': 64, 'large_cnn': 64, 'small_dnn': 64, 'wide_and_deep': 512, 'big': 64, 'padded': 64}
ROWS = 125_000  # of 1,000 numbers: 500 MB
CLASSES = 10
NUMBERS = [f'n{number}' for number in range(13)]
WORDS = [f'c{number}' for number in range(26)]


def digits(count=4000):
    """({'image': uint8 [count, 28, 28, 1]}, int64 [count]), of MNIST's shape."""
    random = np.random.RandomState(1)
    return {'image': random.randint(0, 256, [count, 28, 28, 1], np.uint8)}, random.randint(0, CLASSES, count)


def vectors(count=10_000):
    """({'x': float32 [count, 32]}, int64 [count])."""
    random = np.random.RandomState(2)
    return {'x': random.normal(size=[count, 32]).astype(np.float32)}, random.randint(0, CLASSES, count)


def clicks(count=20_000):
    """({name: float32 [count]} of NUMBERS and {name: words [count]} of WORDS, int64 [count] of 0 and 1)."""
    random = np.random.RandomState(3)
    numbers = {name: random.normal(size=count).astype(np.float32) for name in NUMBERS}
    words = {name: np.array([b'%08x' % key for key in random.zipf(1.3, count) % 2**31], object) for name in WORDS}
    return {**numbers, **words}, random.randint(0, 2, count)


SETS = {'cnn': digits, 'small_dnn': vectors, 'wide_and_deep': clicks, 'big': vectors, 'padded': digits}


def times_of_checkpoints(folder) -> list[float]:
    """When each checkpoint under `folder` / run was complete, the first one first."""
    return sorted(path.stat().st_mtime for path in pathlib.Path(folder, 'run').glob('model.ckpt-*.index'))
