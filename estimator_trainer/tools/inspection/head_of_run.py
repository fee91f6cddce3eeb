"""Which head a canned Estimator has, from its graph, its exports or its evaluations. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

BINARY, MULTI_CLASS, MULTI_LABEL, REGRESSION = 'binary', 'multi-class', 'multi-label', 'regression'
POISSON, SOME_REGRESSION = 'Poisson regression', 'regression or Poisson regression'
CLASS_NAMES = {BINARY: 'Classifier', MULTI_CLASS: 'Classifier', REGRESSION: 'Regressor'}  # others: Estimator


class Head(NamedTuple):
    kind: str
    why: str


def of_graph(names: Iterable[str]) -> str:
    """The kind of head by the operations in its scope; '' if they do not tell.

    Args:
        names: of operations below the scope `head`, such as 'predictions/logistic'.
    """
    first = {name.removeprefix('losses/').partition('/')[0] for name in names}
    predicted = {
        name.partition('predictions/')[2].partition('/')[0] for name in names if name.startswith('predictions/')
    }
    if 'logistic' in predicted or 'logistic_loss' in first and 'class_ids' in predicted:
        return BINARY
    if 'class_ids' in predicted or 'sparse_softmax_cross_entropy_loss' in first:
        return MULTI_CLASS
    if 'probabilities' in predicted or 'sigmoid_cross_entropy_loss' in first:
        return MULTI_LABEL
    if 'Exp' in predicted:
        return POISSON
    return REGRESSION if 'mean_squared_error' in first else ''


def of_outputs(names: Iterable[str]) -> str:
    """The kind of head by what the signature `predict` of an export gives."""
    names = set(names)
    if 'logistic' in names:
        return BINARY
    if {'class_ids', 'probabilities'} <= names:
        return MULTI_CLASS
    if {'logits', 'probabilities'} <= names:
        return MULTI_LABEL
    return REGRESSION if names == {'predictions'} else ''


def of_metrics(names: Iterable[str]) -> str:
    """The kind of head by the metrics of an evaluation."""
    names = set(names)
    if {'accuracy', 'auc', 'label/mean'} <= names:
        return BINARY
    if {'average_loss', 'accuracy'} <= names:
        return MULTI_CLASS
    if {'average_loss', 'auc'} <= names:
        return MULTI_LABEL
    return SOME_REGRESSION if {'average_loss', 'label/mean', 'prediction/mean'} <= names else ''
