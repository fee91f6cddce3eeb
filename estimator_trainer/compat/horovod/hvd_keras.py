"""`horovod.tensorflow.keras` and `horovod.keras`: the optimizer, callbacks, and collectives that give values."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from estimator_trainer.compat.horovod import hvd_callbacks as callbacks
from estimator_trainer.compat.horovod import hvd_tensorflow
from estimator_trainer.compat.horovod.hvd_tensorflow import *  # noqa: F403

_FROM_GRAPHS = {'BroadcastGlobalVariablesHook', 'DistributedGradientTape', 'grouped_allreduce'}
__all__ = [*(name for name in hvd_tensorflow.__all__ if name not in _FROM_GRAPHS), 'callbacks', 'load_model']


def _value(tensor: tf.Tensor) -> Any:
    """The tensor, or its value where a session computes it."""
    return tensor if tf.executing_eagerly() else tf.compat.v1.keras.backend.get_session().run(tensor)


def allreduce(
    value: Any,
    name: str | None = None,
    average: bool | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: str | None = None,
    **kwargs: Any,
) -> Any:
    """The value, reduced over all ranks."""
    reduced = hvd_tensorflow.allreduce(
        tf.convert_to_tensor(value),
        average,
        op=op,
        name=name,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
    )
    return _value(reduced)


def allgather(value: Any, name: str | None = None, **kwargs: Any) -> Any:
    """The rows of all ranks."""
    return _value(hvd_tensorflow.allgather(tf.convert_to_tensor(np.asarray(value)), name))


def broadcast(value: Any, root_rank: int, name: str | None = None, **kwargs: Any) -> Any:
    """The value of rank `root_rank`."""
    return _value(hvd_tensorflow.broadcast(tf.convert_to_tensor(np.asarray(value)), root_rank, name))


def broadcast_global_variables(root_rank: int) -> Any:
    """Gives all variables of Keras's session the values of rank `root_rank`."""
    return _value(hvd_tensorflow.broadcast_global_variables(root_rank))


def load_model(
    filepath: str,
    custom_optimizers: Any = None,
    custom_objects: dict[str, Any] | None = None,
    compression: Any = None,
    **kwargs: Any,
) -> tf.keras.Model:
    """A saved model of Keras, whose optimizer has the gradients of all ranks, and the step and the slots of the file.

    Args:
        filepath: of the file, or the folder.
        custom_optimizers: classes of optimizers that are none of Keras's.
        custom_objects: {name: object} as of tf.keras.models.load_model.
        compression: of the gradients.
    """
    named = {kind.__name__: kind for kind in custom_optimizers or ()}
    model = tf.keras.models.load_model(filepath, custom_objects={**named, **(custom_objects or {})})
    if model.optimizer is None:  # saved before it was compiled, or without its optimizer
        return model
    settings = {} if compression is None else {'compression': compression}
    # A new optimizer would begin at step 0 and without slots. One that changes its class keeps them.
    model.optimizer.__class__ = type(hvd_tensorflow.DistributedOptimizer(model.optimizer, **settings))
    return model
