"""Names of tf.contrib.estimator, tf.contrib.learn and tf.contrib.distribute, with the arguments that TensorFlow 1 had.

Touches: private functions of tensorflow_estimator.python.estimator.canned.head, and Estimator._warm_start_settings
Without it: there are no heads of tf.contrib.estimator, and no forward_features
For: programs under `compat run --tf1`

The heads are tensorflow-estimator's own of TF 1, with contrib's default reduction. Behaviour of the strategies:
https://www.tensorflow.org/versions/r1.15/api_docs/python/tf/contrib/distribute
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


def forward_features(
    estimator: Any, keys: str | Sequence[str] | None = None, sparse_default_values: Mapping[str, Any] | None = None
) -> Any:
    """An Estimator whose predictions and exports have these features as well, such as the key of an example.

    An export gets them in the signatures `predict` and `serving_default`, if that is a PredictOutput.

    Args:
        keys: names of features; None: all.
        sparse_default_values: {feature that is a tf.SparseTensor: what stands where it has no value}. Such features
            need one.

    Raises:
        TypeError: keys are no names.
        ValueError: when the model is built: features or predictions are no dict, a name is missing among the features
            or taken among the predictions, or a feature is sparse and has no default, or the other way round.
    """
    names = [keys] if isinstance(keys, str) else keys
    if names is not None and not (isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)):
        raise TypeError(f'forward_features: keys are a name, a list of names, or None: {keys!r}')
    defaults = sparse_default_values or {}

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
        spec = estimator.model_fn(features, labels, mode, config)
        if spec.predictions is None:
            return spec
        for what, value in (('features', features), ('predictions', spec.predictions)):
            if not isinstance(value, dict):
                raise ValueError(f'forward_features needs a dict of {what}, and there is a {type(value).__name__}')
        forwarded = {
            name: _dense(name, features, spec.predictions, defaults) for name in (features if names is None else names)
        }
        exports = dict(spec.export_outputs or {})
        for signature in {'predict', 'serving_default'} & exports.keys():
            output = exports[signature]
            if isinstance(output, tf.estimator.export.PredictOutput):
                exports[signature] = tf.estimator.export.PredictOutput({**output.outputs, **forwarded})
        return spec._replace(predictions={**spec.predictions, **forwarded}, export_outputs=exports or None)

    return tf.compat.v1.estimator.Estimator(
        model_fn, estimator.model_dir, estimator.config, warm_start_from=estimator._warm_start_settings
    )


def _dense(name: str, features: Mapping[str, Any], predictions: Mapping[str, Any], defaults: Mapping[str, Any]) -> Any:
    """The feature as a tensor. Raises ValueError."""
    if name not in features:
        raise ValueError(f'forward_features: there is no feature {name!r}; there are {", ".join(sorted(features))}')
    if name in predictions:
        raise ValueError(f'forward_features: the predictions already have {name!r}')
    value = tf.compat.v1.convert_to_tensor_or_sparse_tensor(features[name])
    if isinstance(value, tf.SparseTensor) != (name in defaults):
        raise ValueError(
            f'forward_features: {name!r} is a {type(value).__name__}; sparse_default_values is for each sparse '
            'feature, and for no other'
        )
    return tf.sparse.to_dense(value, defaults[name]) if name in defaults else value


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
