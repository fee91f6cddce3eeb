"""What the heads of Estimators predict from logits, and their losses, for Keras 3.

`head_loss` gives the loss to compile a model with. Pass example weights as Keras does: as the third part of (features,
labels, weights).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

_register = keras.saving.register_keras_serializable('estimator_heads')

_INVERSE_LINKS = {'exp': tf.math.exp, 'sigmoid': tf.math.sigmoid}


class _Predictions(keras.layers.Layer):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_jit = False  # names of classes are strings


class _PredictionsOfClasses(_Predictions):
    def __init__(self, n_classes: int, label_vocabulary: Sequence[str] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.n_classes = n_classes
        self.label_vocabulary = tuple(label_vocabulary or ())

    def _names(self) -> tf.Tensor:
        """The names of all classes, a string tensor [n_classes]."""
        return tf.constant(self.label_vocabulary or [str(i) for i in range(self.n_classes)])

    def get_config(self) -> dict[str, Any]:
        vocabulary = list(self.label_vocabulary) or None
        return {**super().get_config(), 'n_classes': self.n_classes, 'label_vocabulary': vocabulary}


@_register
class ClassPredictions(_PredictionsOfClasses):
    """What BinaryClassHead and MultiClassHead predict: a dict of tensors.

    logits          float32 [batch, 1] for two classes, else [batch, n_classes]
    logistic        float32 [batch, 1], the sigmoid; for two classes only
    probabilities   float32 [batch, n_classes]
    class_ids       int64 [batch, 1], of the most probable class
    classes         string [batch, 1], its name: that of `label_vocabulary` or its number
    all_class_ids   int32 [batch, n_classes]
    all_classes     string [batch, n_classes]
    """

    def call(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        predictions = {'logits': logits}
        if self.n_classes == 2:
            predictions['logistic'] = tf.math.sigmoid(logits)
            logits = tf.concat([tf.zeros_like(logits), logits], -1)
        class_ids = tf.expand_dims(tf.argmax(logits, -1), -1)
        names = self._names()
        rows = [tf.shape(logits)[0], 1]
        return {
            **predictions,
            'probabilities': tf.nn.softmax(logits),
            'class_ids': class_ids,
            'classes': tf.gather(names, class_ids),
            'all_class_ids': tf.tile([tf.range(self.n_classes)], rows),
            'all_classes': tf.tile([names], rows),
        }

    def compute_output_spec(self, logits: tf.Tensor) -> dict[str, keras.KerasTensor]:
        n = self.n_classes
        return {
            'logits': _spec(logits.shape[-1]),
            **({'logistic': _spec(1)} if n == 2 else {}),
            'probabilities': _spec(n),
            'class_ids': _spec(1, 'int64'),
            'classes': _spec(1, 'string'),
            'all_class_ids': _spec(n, 'int32'),
            'all_classes': _spec(n, 'string'),
        }


@_register
class MultiLabelPredictions(_PredictionsOfClasses):
    """What MultiLabelHead predicts: `logits` and `probabilities` float32, `classes` string, all [batch, n_classes]."""

    def call(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        names = self._names()
        return {
            'logits': logits,
            'probabilities': tf.math.sigmoid(logits),
            'classes': tf.tile([names], [tf.shape(logits)[0], 1]),
        }

    def compute_output_spec(self, logits: tf.Tensor) -> dict[str, keras.KerasTensor]:
        n = self.n_classes
        return {'logits': _spec(n), 'probabilities': _spec(n), 'classes': _spec(n, 'string')}


@_register
class RegressionPredictions(_Predictions):
    """What RegressionHead predicts: {'predictions': logits}, float32 [batch, label_dimension].

    Args:
        inverse_link: 'exp' (PoissonRegressionHead), 'sigmoid' (LogisticRegressionHead) or None. With one of them
            'predictions' is the function of the logits, and 'logits' are there as well.
    """

    def __init__(self, inverse_link: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if inverse_link is not None and inverse_link not in _INVERSE_LINKS:
            raise ValueError(f'inverse_link is {inverse_link!r}; known are {", ".join(_INVERSE_LINKS)} and None.')
        self.inverse_link = inverse_link

    def call(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        if self.inverse_link is None:
            return {'predictions': logits}
        return {'predictions': _INVERSE_LINKS[self.inverse_link](logits), 'logits': logits}

    def compute_output_spec(self, logits: tf.Tensor) -> dict[str, keras.KerasTensor]:
        names = ['predictions'] if self.inverse_link is None else ['predictions', 'logits']
        return {name: _spec(logits.shape[-1]) for name in names}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), 'inverse_link': self.inverse_link}


def _spec(width: int | None, dtype: tf.DType = 'float32') -> keras.KerasTensor:
    return keras.KerasTensor((None, width), dtype=dtype)


def _binary(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)


def _multi_class(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    labels = tf.cast(tf.squeeze(labels, -1), tf.int64)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)[:, tf.newaxis]


def _multi_label(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(_binary(labels, logits), -1, keepdims=True)


def _regression(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    return tf.math.squared_difference(logits, labels)


def _poisson(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    return tf.nn.log_poisson_loss(targets=labels, log_input=logits, compute_full_loss=True)


def _short_poisson(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    return tf.nn.log_poisson_loss(targets=labels, log_input=logits)


# From float32 labels and logits [batch, n] to losses [batch, 1], or [batch, n] for regression.
_LOSSES = {
    'binary': _binary,
    'multi_class': _multi_class,
    'multi_label': _multi_label,
    'regression': _regression,
    'poisson': _poisson,
    'poisson_without_full_loss': _short_poisson,
    'logistic': _binary,
}

# The losses of Keras that equal the head's for a sum and for a mean over the batch, and cost less code to own.
_OF_KERAS = {
    'binary': lambda how: keras.losses.BinaryCrossentropy(from_logits=True, reduction=how),
    'multi_class': lambda how: keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=how),
    'multi_label': lambda how: keras.losses.BinaryCrossentropy(from_logits=True, reduction=how),
    'regression': lambda how: keras.losses.MeanSquaredError(reduction=how),
    'logistic': lambda how: keras.losses.BinaryCrossentropy(from_logits=True, reduction=how),
}


def head_loss(head: str, reduction: str, label_dimension: int = 1) -> keras.losses.Loss:
    """The loss of a head: one of Keras's if that is equal, else a HeadLoss.

    Args:
        head, reduction: as in HeadLoss.
        label_dimension: numbers that a regression predicts for each example.
    """
    if reduction in ('sum', 'sum_over_batch_size') and label_dimension == 1 and head in _OF_KERAS:
        return _OF_KERAS[head](reduction)
    return HeadLoss(head, reduction)


@_register
class HeadLoss(keras.losses.Loss):
    """The loss that an Estimator's head computes from labels, logits and the weights of examples.

    Labels have the shape of the logits, or lack the last dimension if that is 1: class ids [batch, 1] for
    'multi_class', else numbers. Weights are [batch] or [batch, 1]; for a regression also [batch, label_dimension].

    Args:
        head: 'binary', 'multi_class', 'multi_label', 'regression', 'poisson', 'poisson_without_full_loss'
            (compute_full_loss=False) or 'logistic'.
        reduction: of the weighted losses of all examples and label dimensions. 'sum', which is what
            tf.compat.v1.estimator does unless told otherwise; or their sum divided by: the number of losses
            ('sum_over_batch_size', which is what tf.estimator does), the number of losses whose weight is not 0
            ('sum_over_nonzero_weights'), or the sum of the weights ('mean').
    """

    def __init__(self, head: str, reduction: str = 'sum_over_batch_size', name: str = 'head_loss') -> None:
        super().__init__(name=name, reduction='sum')
        if head not in _LOSSES:
            raise ValueError(f'There is no head {head!r}; known are {", ".join(_LOSSES)}.')
        if reduction not in _DIVISORS:
            raise ValueError(f'There is no reduction {reduction!r}; known are {", ".join(_DIVISORS)}.')
        self.head, self.head_reduction = head, reduction

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        """Losses without weights: [batch, 1], or [batch, label_dimension] for a regression."""
        logits = tf.convert_to_tensor(y_pred)
        labels = tf.cast(y_true, logits.dtype)
        if labels.shape.rank == logits.shape.rank - 1:
            labels = tf.expand_dims(labels, -1)
        return _LOSSES[self.head](labels, logits)

    def __call__(self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None) -> tf.Tensor:
        losses = self.call(y_true, y_pred)
        weights = tf.cast(1.0 if sample_weight is None else sample_weight, losses.dtype)
        if weights.shape.rank == losses.shape.rank - 1:
            weights = tf.expand_dims(weights, -1)
        total = tf.reduce_sum(losses * weights)
        if self.head_reduction == 'sum':
            return total
        mean = tf.math.divide_no_nan(total, _DIVISORS[self.head_reduction](tf.ones_like(losses) * weights))
        return mean / tf.distribute.get_strategy().num_replicas_in_sync  # Keras adds up the gradients of all replicas

    def get_config(self) -> dict[str, Any]:
        return {'name': self.name, 'head': self.head, 'reduction': self.head_reduction}


# From the weight of each loss to what the sum of the weighted losses is divided by.
_DIVISORS = {
    'sum': None,
    'sum_over_batch_size': lambda weights: tf.cast(tf.size(weights), weights.dtype),
    'sum_over_nonzero_weights': lambda weights: tf.reduce_sum(tf.cast(tf.not_equal(weights, 0), weights.dtype)),
    'mean': tf.reduce_sum,
}
