"""TensorFlow's eager context: whether operations run at once, and with which options."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from estimator_trainer.compat import lacks

if TYPE_CHECKING:
    import contextlib


def at_once() -> contextlib.AbstractContextManager[Any]:
    """A context manager within which operations run at once: also while a graph is built or run, and if the job has
    turned eager execution off.

    Touches: tensorflow.python.eager.context.eager_mode
    Without it: a job that turned eager execution off cannot have its checkpoints verified, nor its examples parsed, nor
      train on several workers
    For: the trainer
    """
    with lacks.or_without():
        from tensorflow.python.eager import context

        return context.eager_mode()
    return tf.init_scope()  # does the same for a job that has left eager execution on


def is_deterministic() -> bool:
    """Whether operations have to be deterministic; True where nobody can tell.

    Touches: tensorflow.python.framework.config.is_op_determinism_enabled
    Without it: a step under --deterministic reads TensorFlow's clock, which is an error there, or no step reads it, and
      the waits for batches of some loops are not measured
    For: the trainer
    """
    with lacks.or_without():
        from tensorflow.python.framework import config

        return config.is_op_determinism_enabled()
    return True


def accept_options(tensorflow: ModuleType) -> None:
    """Lets `tensorflow.compat.v1.enable_eager_execution` take options: see `set_options`."""
    v1, original = tensorflow.compat.v1, tensorflow.compat.v1.enable_eager_execution

    @functools.wraps(original)
    def enable(
        config: tf.compat.v1.ConfigProto | None = None, device_policy: Any = None, execution_mode: Any = None
    ) -> Any:
        set_options(config, device_policy)
        return original(config, device_policy, execution_mode)

    v1.enable_eager_execution = enable


def set_options(config: tf.compat.v1.ConfigProto | None, device_policy: Any) -> None:
    """Gives an eager context that has not been used yet these options, as far as they are not None.

    Touches: the attributes _config, _device_policy and _context_handle of tensorflow.python.eager.context's Context
    Without it: such a program ends with "'Context' object has no attribute '_execution_mode'": turning TensorFlow 2's
      behaviour off has made a context without these options
    For: programs under `compat run --tf1` that call tf.enable_eager_execution(config=…)
    """
    with lacks.or_without():
        from tensorflow.python.eager import context

        of_process = context.context()
        if of_process._context_handle is not None:  # it is used already: TensorFlow refuses other options
            return
        if config is not None:
            of_process._config = config
        if device_policy is not None:
            of_process._device_policy = device_policy
