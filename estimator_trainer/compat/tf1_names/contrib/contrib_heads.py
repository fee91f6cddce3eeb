"""tf.contrib.estimator's heads: tensorflow-estimator's own of TF 1, with contrib's default reduction.

Touches: private functions of tensorflow_estimator.python.estimator.canned.head
Without it: there are no heads of tf.contrib.estimator
For: programs under `compat run --tf1`
"""

import tensorflow as tf
from tensorflow_estimator.python.estimator.canned import head

_MEAN = tf.compat.v1.losses.Reduction.SUM_OVER_BATCH_SIZE


def multi_class_head(
    n_classes, weight_column=None, label_vocabulary=None, loss_reduction=_MEAN, loss_fn=None, name=None
):
    """The head of n_classes > 2 exclusive classes: softmax cross entropy."""
    return head._multi_class_head_with_softmax_cross_entropy_loss(
        n_classes, weight_column, label_vocabulary, loss_reduction, loss_fn, name
    )


def binary_classification_head(
    weight_column=None, thresholds=None, label_vocabulary=None, loss_reduction=_MEAN, loss_fn=None, name=None
):
    """The head of two classes: sigmoid cross entropy of one logit."""
    return head._binary_logistic_head_with_sigmoid_cross_entropy_loss(
        weight_column, thresholds, label_vocabulary, loss_reduction, loss_fn, name
    )


def regression_head(
    weight_column=None, label_dimension=1, loss_reduction=_MEAN, loss_fn=None, inverse_link_fn=None, name=None
):
    """The head of a regression: squared error."""
    return head._regression_head(weight_column, label_dimension, loss_reduction, loss_fn, inverse_link_fn, name)
