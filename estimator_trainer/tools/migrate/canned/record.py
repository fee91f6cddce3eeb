"""What the Estimator computes from its checkpoint, for the Keras model to compute as well."""

import itertools
import os

import numpy as np
import tensorflow as tf

from estimator_trainer.compat import quiet
from estimator_trainer.compat.patches import estimators
from estimator_trainer.tools.migrate.canned.in_keras_3 import tensors


def batches(input_fn, count: int) -> tuple:
    """The first `count` batches of an input_fn, [(features, labels)] as eager tensors, and their tf.TensorSpecs.

    Raises:
        ValueError: it fails, or gives no batch or no labels.
    """
    if not tf.executing_eagerly():
        raise ValueError(
            'the program turns eager execution off on import (disable_eager_execution, disable_v2_behavior, '
            "estimator_trainer.compat.tf1), which migrate needs; move such a call below `if __name__ == '__main__':`, "
            'and write `import tensorflow.compat.v1 as tf` in place of compat.tf1'
        )
    try:
        dataset = input_fn()
        found = list(itertools.islice(dataset, count)) if isinstance(dataset, tf.data.Dataset) else None
    except Exception as error:  # of somebody's program: anything
        line = next(iter(str(error).splitlines()), '')
        raise ValueError(
            f'the input_fn raises {type(error).__name__}: {line}; migrate calls it where TensorFlow runs eagerly, so '
            'let it make a tf.data.Dataset and no operations of a graph'
        ) from error
    if found is None:
        raise ValueError('the input_fn gives no tf.data.Dataset; let it return one')
    if not found:
        raise ValueError('the input_fn gives no batch')
    if not isinstance(found[0], tuple) or len(found[0]) != 2:
        raise ValueError('the input_fn gives no labels; name one for training or evaluation')
    for part in tf.nest.flatten(found[0]):
        if not isinstance(part, (tf.Tensor, tf.SparseTensor)):
            raise ValueError(
                f'the input_fn gives a {type(part).__name__}, which no column reads: let it give a tf.SparseTensor, or '
                'leave it away'
            )
    return found, dataset.element_spec


def specs(recorded, element_spec):
    """(features, labels) of all batches as tf.TensorSpec and tf.SparseTensorSpec.

    A size is None where two batches differ, or where the data set says that they may.
    """
    return tf.nest.map_structure(_wider, tensors.spec(recorded), element_spec)


def _wider(spec, other):
    if isinstance(spec, tf.SparseTensorSpec) or other.shape.rank is None:
        return spec
    sizes = [size if size == there else None for size, there in zip(spec.shape, other.shape)]
    return tf.TensorSpec([None, *sizes[1:]], spec.dtype)


def moved(estimator, model_dir: str, checkpoint: str):
    """The same Estimator with a model_dir of its own, which goes on from the checkpoint, in this process alone."""
    # All comes from the checkpoint; where it began may be gone.
    estimators.move(
        estimator, model_dir, save_checkpoints_secs=None, save_checkpoints_steps=1_000_000, save_summary_steps=0
    )
    os.makedirs(model_dir, exist_ok=True)
    tf.compat.v1.train.update_checkpoint_state(model_dir, checkpoint, [checkpoint])
    return estimator


def predictions(estimator, recorded, checkpoint) -> dict:
    """{name: array of all examples}."""
    found = list(
        estimator.predict(
            _input_fn([features for features, _ in recorded]), checkpoint_path=checkpoint, yield_single_examples=False
        )
    )
    return {name: np.concatenate([batch[name] for batch in found]) for name in found[0]}


def metrics(estimator, recorded, checkpoint) -> dict:
    """{name: number}."""
    found = estimator.evaluate(_input_fn(recorded), checkpoint_path=checkpoint)
    return {name: float(value) for name, value in found.items() if name != 'global_step'}


def train(estimator, recorded) -> str:
    """Takes a step with each batch. The checkpoint after them."""
    with quiet.only_errors():
        estimator.train(_input_fn(recorded))
    return estimator.latest_checkpoint()


def _input_fn(recorded):
    def input_fn():
        return tf.data.Dataset.from_generator(lambda: iter(recorded), output_signature=tensors.spec(recorded))

    return input_fn
