"""Names of tf.contrib.estimator, tf.contrib.learn and tf.contrib.distribute, with the arguments that TensorFlow 1 had.

Touches: private functions of tensorflow_estimator.python.estimator.canned.head
Without it: there are no heads of tf.contrib.estimator
For: programs under `compat run --tf1`

The heads are tensorflow-estimator's own of TF 1, with contrib's default reduction. Behaviour of the strategies:
https://www.tensorflow.org/versions/r1.15/api_docs/python/tf/contrib/distribute
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow_estimator.python.estimator.canned import head

_MEAN = tf.compat.v1.losses.Reduction.SUM_OVER_BATCH_SIZE


def multi_class_head(
    n_classes: int,
    weight_column: Any = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: str = _MEAN,
    loss_fn: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """The head of n_classes > 2 exclusive classes: softmax cross entropy."""
    return head._multi_class_head_with_softmax_cross_entropy_loss(
        n_classes, weight_column, label_vocabulary, loss_reduction, loss_fn, name
    )


def binary_classification_head(
    weight_column: Any = None,
    thresholds: Sequence[float] | None = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: str = _MEAN,
    loss_fn: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """The head of two classes: sigmoid cross entropy of one logit."""
    return head._binary_logistic_head_with_sigmoid_cross_entropy_loss(
        weight_column, thresholds, label_vocabulary, loss_reduction, loss_fn, name
    )


def regression_head(
    weight_column: Any = None,
    label_dimension: int = 1,
    loss_reduction: str = _MEAN,
    loss_fn: Callable[..., Any] | None = None,
    inverse_link_fn: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """The head of a regression: squared error."""
    return head._regression_head(weight_column, label_dimension, loss_reduction, loss_fn, inverse_link_fn, name)


class ModeKeys:
    """The modes of a model_fn. Estimators call the last one PREDICT."""

    TRAIN = tf.estimator.ModeKeys.TRAIN
    EVAL = tf.estimator.ModeKeys.EVAL
    INFER = tf.estimator.ModeKeys.PREDICT


_v1 = tf.compat.v1.distribute


def MirroredStrategy(
    devices: Sequence[str] | None = None,
    num_gpus: int | None = None,
    num_gpus_per_worker: int | None = None,
    cross_device_ops: tf.distribute.CrossDeviceOps | None = None,
    **more: Any,
) -> tf.distribute.Strategy:
    """tf.distribute.MirroredStrategy on these devices, on the first num_gpus GPUs, or on all that there are.

    Args:
        devices: names of devices.
        num_gpus: how many GPUs; 0 is the CPU.
        num_gpus_per_worker: the same; one of the two at most.
        cross_device_ops: how gradients are added up.
        **more: `cross_tower_ops`, the name of cross_device_ops up to 1.12. `auto_shard_dataset` and
            `prefetch_on_device` change nothing here.

    Raises:
        TypeError: an argument is not known.
        ValueError: both devices and a number of GPUs, or two numbers.
    """
    unknown = more.keys() - {'cross_tower_ops', 'auto_shard_dataset', 'prefetch_on_device'}
    if unknown:
        raise TypeError(f'MirroredStrategy has no argument {", ".join(sorted(unknown))}')
    if sum(argument is not None for argument in (devices, num_gpus, num_gpus_per_worker)) > 1:
        raise ValueError('MirroredStrategy takes one of devices, num_gpus and num_gpus_per_worker')
    gpus = num_gpus if num_gpus_per_worker is None else num_gpus_per_worker
    if gpus is not None:
        devices = [f'/device:GPU:{number}' for number in range(gpus)] or ['/device:CPU:0']
    return _v1.MirroredStrategy(devices, cross_device_ops or more.get('cross_tower_ops'))


def CollectiveAllReduceStrategy(num_gpus_per_worker: int | None = None) -> tf.distribute.Strategy:
    """tf.distribute.MultiWorkerMirroredStrategy. It takes all GPUs that the worker sees."""
    _check_gpus('CollectiveAllReduceStrategy', num_gpus_per_worker)
    return _v1.experimental.MultiWorkerMirroredStrategy()


def ParameterServerStrategy(num_gpus_per_worker: int | None = None) -> tf.distribute.Strategy:
    """tf.distribute.experimental.ParameterServerStrategy. It takes all GPUs that the worker sees."""
    _check_gpus('ParameterServerStrategy', num_gpus_per_worker)
    return _v1.experimental.ParameterServerStrategy()


def _check_gpus(strategy: str, number: int | None) -> None:
    seen = len(tf.config.list_physical_devices('GPU'))
    if number is not None and number != seen:
        raise ValueError(
            f'{strategy} takes all {seen} GPUs that it sees, and num_gpus_per_worker is {number}: '
            'let CUDA_VISIBLE_DEVICES name as many'
        )
