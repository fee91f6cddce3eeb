"""Predictions, loss and metrics of a description's head."""

import estimator_heads
import keras

_LINKS = {'poisson': 'exp', 'poisson_without_full_loss': 'exp', 'logistic': 'sigmoid'}


def predictions(head: dict, name: str):
    """The layer from logits to what the Estimator predicts, by name."""
    kind, classes = head['kind'], head['n_classes']
    if kind in ('binary', 'multi_class'):
        return estimator_heads.ClassPredictions(classes, head['label_vocabulary'], name=name)
    if kind == 'multi_label':
        return estimator_heads.MultiLabelPredictions(classes, head['label_vocabulary'], name=name)
    return estimator_heads.RegressionPredictions(_LINKS.get(kind), name=name)


def loss(head: dict, units: int):
    return estimator_heads.head_loss(head['kind'], head['loss_reduction'], units)


def metrics(head: dict) -> list:
    """Those of the head that Keras computes alike, by the head's names."""
    made = keras.metrics
    if head['kind'] == 'binary':
        found = [
            made.BinaryCrossentropy(from_logits=True, name='average_loss'),
            made.BinaryAccuracy(threshold=0.0, name='accuracy'),
        ]
        if head['version'] == 2:  # that of version 1 adds up in another way
            found.append(made.AUC(from_logits=True, name='auc'))
        return found
    if head['kind'] == 'multi_class':
        return [
            made.SparseCategoricalCrossentropy(from_logits=True, name='average_loss'),
            made.SparseCategoricalAccuracy(name='accuracy'),
        ]
    if head['kind'] == 'multi_label':
        return [made.BinaryCrossentropy(from_logits=True, name='average_loss')]
    if head['kind'] == 'regression':
        return [made.MeanSquaredError(name='average_loss')]
    return []
