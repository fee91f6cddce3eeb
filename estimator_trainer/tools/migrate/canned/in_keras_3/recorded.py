"""What the Estimator's process has recorded, and how far from it something is."""

import os

import dataset
import numpy as np
import tensorflow as tf
import tensors
from differences import by_name


def load(work: str, name: str) -> dict:
    """{name: tensor or tf.SparseTensor} of a file of the folder `work`."""
    return tensors.load(os.path.join(work, f'{name}.npz'))


def batches(work: str, kind: str) -> list:
    """[(features, labels)] as the input_fn gave them."""
    made = {}
    for name, value in load(work, kind).items():
        number, part, key = name.split('/', 2)
        made.setdefault(int(number), {}).setdefault(part, {})[key] = value
    return [(made[number]['features'], made[number]['labels']['']) for number in sorted(made)]


def different_predictions(work: str, predict, counts=None) -> dict:
    """{name: greatest difference, relative}; that of texts is the number of those that differ. {} where nothing counts.

    Args:
        predict: (features of a batch) -> {name: tensor}.
        counts: (features of a batch) -> bool [batch], the examples that are compared; None: all.
    """
    predict = tf.function(predict)  # as a graph, like the Estimator's
    taken = [{name: features[name] for name in dataset.FEATURES} for features, _ in batches(work, 'eval')]
    found, expected = [predict(features) for features in taken], load(work, 'predictions')
    added = sorted(expected.keys() - found[0].keys())
    if added:
        raise ValueError(f'the model_fn adds the predictions {", ".join(added)}; migrate one that adds none')
    rows = np.concatenate([counts(features) for features in taken]) if counts else None
    expected = {name: value.numpy() for name, value in expected.items()}
    return by_name(expected, {name: np.concatenate([one[name] for one in found]) for name in expected}, rows)
