"""An image classification data set of TFDS, and the random changes to its training images.

Like the order of the images, a change is a function of seed and position.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

from estimator_trainer.data import order, pipeline
from estimator_trainer.data.batch import Structure
from estimator_trainer.errors import DatasetError


class ImageDataset:
    """An image classification data set of TFDS.

    Args:
        builder: the prepared data set.
        in_memory_mb: the value of --in_memory_mb.

    Attributes:
        num_train, num_eval: the number of examples of the splits `train` and `test` (or `validation`).
        num_classes: the number of classes; labels are 0 to num_classes - 1.
        image_shape: (height, width, channels).
        in_memory: whether the training split is held decoded in memory, in an exact order.
        contents: None; see data.files.dataset.FileDataset.
        evaluation_data: '', for unknown, until who knows the flags says it.

    Raises:
        DatasetError: it is no set of labelled images of one size.
    """

    contents = None
    evaluation_data = ''

    def __init__(self, builder: tfds.core.DatasetBuilder, in_memory_mb: int) -> None:
        self.builder = builder
        info = builder.info
        self.name = info.name
        if not info.supervised_keys or len(info.supervised_keys) != 2:
            raise DatasetError(
                f'--dataset={self.name}: not a set of labelled images; give the job an input_fn of its own.'
            )
        self._image, self._label = info.supervised_keys
        self.image_shape = info.features[self._image].shape
        self.num_classes = getattr(info.features[self._label], 'num_classes', None)
        self.eval_split = next((s for s in ('test', 'validation') if s in info.splits), None)
        if 'train' not in info.splits or self.eval_split is None:
            raise DatasetError(
                f"--dataset={self.name}: needs the splits 'train' and 'test' or "
                f"'validation'; it has {', '.join(sorted(info.splits))}."
            )
        if self.num_classes is None or len(self.image_shape or ()) != 3 or None in self.image_shape:
            raise DatasetError(
                f'--dataset={self.name}: needs images of one size and class labels; got '
                f'{self.image_shape} and {self.num_classes} classes. Give the job an '
                'input_fn of its own.'
            )
        self.num_train = info.splits['train'].num_examples
        self.num_eval = info.splits[self.eval_split].num_examples
        height, width, channels = self.image_shape
        self._num_bytes = self.num_train * height * width * channels
        self.in_memory = self._num_bytes <= in_memory_mb * 2**20

    def input_fn(
        self, mode: str, params: dict[str, Any], input_context: tf.distribute.InputContext | None = None
    ) -> tf.data.Dataset:
        """Batches of ({'image': uint8 [batch, height, width, channels]}, int64 [batch])."""
        if mode != pipeline.TRAIN:
            return self._examples(self.eval_split).batch(params['batch_size']).prefetch(2)
        if self.in_memory:
            whole = self._examples('train').batch(self.num_train)
            # Sines and cosines may have another last digit in another place of a graph.
            num_bytes = None if params.get('turn_degrees') or params.get('zoom') else self._num_bytes
            return pipeline.ordered_batches(
                whole, self.num_train, params, input_context, self._augmentation(params), num_bytes
            )
        pipelines = input_context.num_input_pipelines if input_context else 1
        pipeline_id = input_context.input_pipeline_id if input_context else 0
        split = tfds.even_splits('train', n=pipelines)[pipeline_id]
        return pipeline.streamed_batches(
            self._examples(split, shuffle_seed=params['seed'] + params['start_step']),
            params,
            input_context,
            self._augmentation(params),
        )

    def eval_examples(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The examples of an evaluation, in its order: (uint8 [height, width, channels], label)."""
        for features, label in self._examples(self.eval_split).as_numpy_iterator():
            yield features['image'], label

    def class_name(self, label: int) -> str:
        """The name of a class."""
        return self.builder.info.features[self._label].int2str(label)

    def counts(self) -> dict[str, int]:
        """The entries of metrics.jsonl about the data: none."""
        return {}

    def _augmentation(self, params: Mapping[str, Any]) -> pipeline.Change | None:
        pixels, degrees, zoom = (params.get(name, 0) for name in ('shift_pixels', 'turn_degrees', 'zoom'))
        if not (pixels or degrees or zoom):
            return None

        def change(batch: Structure, positions: tf.Tensor) -> Structure:
            features, labels = batch
            images = features['image']
            if degrees or zoom:
                images = turn(images, positions, self.num_train, params['seed'], degrees, zoom)
            if pixels:
                images = shift(images, positions, self.num_train, params['seed'], pixels)
            images.set_shape([None, *self.image_shape])
            return {'image': images}, labels

        return change

    def _examples(self, split: 'str | tfds.core.ReadInstruction', shuffle_seed: int | None = None) -> tf.data.Dataset:
        shuffle = shuffle_seed is not None
        data = self.builder.as_dataset(
            split=split,
            shuffle_files=shuffle,
            read_config=tfds.ReadConfig(
                shuffle_seed=shuffle_seed,
                shuffle_reshuffle_each_iteration=shuffle,
                enable_ordering_guard=not shuffle,
                try_autocache=False,
            ),
        )
        return data.map(lambda example: ({'image': example[self._image]}, example[self._label]), num_parallel_calls=2)


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
