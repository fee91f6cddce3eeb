"""--mixed_precision in keras_fit and custom_loop: the layers compute in 16 bits, the loss in float32."""

import contextlib
import dataclasses
from collections.abc import Iterator

import tensorflow as tf

from estimator_trainer.jobs import losses
from estimator_trainer.jobs.job import KerasParts
from estimator_trainer.jobs.job_types import Params, Tensors

_NARROW = (tf.bfloat16, tf.float16)


@contextlib.contextmanager
def of_layers(kind: str | None) -> Iterator[None]:
    """Layers that are made within it compute in this type, one of `mixed_precision.KINDS`. Their variables are
    float32. None: Keras's own choice."""
    if kind is None:
        yield
        return
    before = tf.keras.mixed_precision.global_policy()
    tf.keras.mixed_precision.set_global_policy(f'mixed_{kind}')
    try:
        yield
    finally:
        tf.keras.mixed_precision.set_global_policy(before)


def loss_in_float32(parts: KerasParts) -> KerasParts:
    """The parts of a job, whose loss is given outputs in float32. Metrics convert them themselves."""

    def loss(labels: Tensors, outputs: Tensors, params: Params) -> tf.Tensor:
        return parts.loss(labels, tf.nest.map_structure(_widened, outputs), params)

    return dataclasses.replace(parts, loss=loss)


def _widened(tensor: tf.Tensor) -> tf.Tensor:
    return losses.with_mask_of(tensor, tf.cast(tensor, tf.float32)) if tensor.dtype in _NARROW else tensor
