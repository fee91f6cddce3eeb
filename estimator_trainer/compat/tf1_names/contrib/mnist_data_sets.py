"""tf.contrib.learn.datasets.mnist, which was tensorflow.examples.tutorials.mnist.input_data as well.

Behaviour: https://www.tensorflow.org/versions/r1.15/api_docs/python/tf/contrib/learn/datasets/mnist
"""

from __future__ import annotations

import collections
import gzip
import os
import shutil
import struct
import tempfile
import urllib.request
from typing import Any

import numpy as np

DEFAULT_SOURCE_URL = 'https://storage.googleapis.com/cvdf-datasets/mnist/'
Datasets = collections.namedtuple('Datasets', ['train', 'validation', 'test'])


class DataSet:
    """Images and their labels.

    Args:
        images: uint8 [number, rows, columns, 1].
        labels: as next_batch gives them.
        fake_data: must be False.
        one_hot: without effect, as in TensorFlow 1 where no data are fake.
        dtype: float32 for pixels from 0 to 1, uint8 for pixels as they are.
        reshape: whether an image becomes a row of pixels.
        seed: of the order in next_batch; NumPy's generator is used if there is none.

    Attributes:
        images: [number, 784] from 0 to 1, or as `dtype` and `reshape` ask for them.
        labels: [number], or [number, 10] if they are one-hot.
        num_examples: how many there are.
        epochs_completed: how often next_batch has come to the end.
    """

    def __init__(
        self,
        images: np.ndarray,
        labels: np.ndarray,
        fake_data: bool = False,
        one_hot: bool = False,
        dtype: Any = np.float32,
        reshape: bool = True,
        seed: int | None = None,
    ) -> None:
        if fake_data:
            raise ValueError('There are no fake data here')
        kind = np.dtype(getattr(dtype, 'as_numpy_dtype', dtype))
        if kind not in (np.uint8, np.float32):
            raise TypeError(f'the dtype of images is {kind}: give uint8 or float32')
        if len(images) != len(labels):
            raise ValueError(f'there are {len(images)} images and {len(labels)} labels')
        if reshape:
            if images.ndim != 4 or images.shape[3] != 1:
                raise ValueError(f'images of shape {images.shape}: give [number, rows, columns, 1], or reshape=False')
            images = images.reshape(len(images), images.shape[1] * images.shape[2])
        if kind == np.float32:
            images = images.astype(np.float32) / np.float32(255)
        self.images, self.labels = images, labels
        self.num_examples, self.epochs_completed = len(images), 0
        self._random = np.random if seed is None else np.random.RandomState(seed)
        self._order, self._position = np.arange(self.num_examples), 0

    def next_batch(
        self, batch_size: int, fake_data: bool = False, shuffle: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """(images, labels) of the next examples. Each epoch has an order of its own, unless shuffle is False.

        A batch may begin in one epoch and end in the next.
        """
        if fake_data:
            raise ValueError('There are no fake data here')
        if not self.num_examples:
            return self.images, self.labels
        chosen: list[int] = []
        while len(chosen) < batch_size:
            if self._position == self.num_examples:
                self.epochs_completed += 1
                self._position = 0
            if self._position == 0 and shuffle:
                self._order = self._random.permutation(self.num_examples)
            end = min(self._position + batch_size - len(chosen), self.num_examples)
            chosen.extend(self._order[self._position : end])
            self._position = end
        return self.images[chosen], self.labels[chosen]


def read_data_sets(
    train_dir: str,
    fake_data: bool = False,
    one_hot: bool = False,
    dtype: Any = np.float32,
    reshape: bool = True,
    validation_size: int = 5000,
    seed: int | None = None,
    source_url: str = DEFAULT_SOURCE_URL,
) -> Datasets:
    """Reads MNIST from the four .gz files in train_dir, and fetches those that are not there.

    Args:
        train_dir: folder.
        fake_data: must be False.
        one_hot: whether a label is a row of ten.
        dtype: float32 for pixels from 0 to 1, uint8 for pixels from 0 to 255.
        reshape: whether an image is a row of pixels; else it is [28, 28, 1].
        validation_size: how many of the 60000 images for training are for validation.
        seed: of the order in next_batch; NumPy's generator is used if there is none.
        source_url: from where a missing file is fetched.
    """
    if fake_data:
        raise ValueError('There are no fake data here')
    source = source_url or DEFAULT_SOURCE_URL
    sets = []
    for name in ('train', 't10k'):
        pixels = _read(train_dir, f'{name}-images-idx3-ubyte.gz', source)
        labels = _read(train_dir, f'{name}-labels-idx1-ubyte.gz', source)
        sets.append((pixels[..., np.newaxis], np.eye(10)[labels] if one_hot else labels))
    if not 0 <= validation_size <= len(sets[0][0]):
        raise ValueError(f'validation_size is {validation_size}, and there are {len(sets[0][0])} images for training')
    (images, labels), test = sets
    train = (images[validation_size:], labels[validation_size:])
    validation = (images[:validation_size], labels[:validation_size])
    return Datasets(*(DataSet(*each, dtype=dtype, reshape=reshape, seed=seed) for each in (train, validation, test)))


def load_mnist(train_dir: str = 'MNIST-data') -> Datasets:
    """read_data_sets as it is by default."""
    return read_data_sets(train_dir)


# tf.contrib.learn.datasets.DATASETS
DATASETS = {'mnist': load_mnist}


def load_dataset(name: str, size: str = 'small', test_with_fake_data: bool = False) -> Datasets:
    """tf.contrib.learn.datasets.load_dataset: of its data sets only 'mnist'."""
    if name != 'mnist':
        raise ValueError(f"load_dataset has only 'mnist' here, not '{name}': use the package tensorflow-datasets")
    return load_mnist()


def _read(folder: str, name: str, source_url: str) -> np.ndarray:
    """The array of an idx file."""
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        _fetch(source_url + name, path)
    with gzip.open(path) as file:
        data = file.read()
    if data[:3] != b'\0\0\x08':
        raise ValueError(f'{path} is no file of MNIST')
    shape = struct.unpack_from(f'>{data[3]}I', data, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)


def _fetch(url: str, path: str) -> None:
    os.makedirs(os.path.dirname(path) or '.', exist_ok=True)
    print(f'Fetching {url}', flush=True)
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(path) or '.', delete=False) as file:
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                shutil.copyfileobj(answer, file)
            file.close()
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
