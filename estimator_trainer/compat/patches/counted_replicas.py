"""A strategy tells a job of more replicas than there are, where each of them trains several batches in a step.

Touches: num_replicas_in_sync of tf.distribute.Strategy and tf.compat.v1.distribute.Strategy,
  Strategy._scale_loss_for_estimator_enabled and Graph._is_loss_scaled_by_optimizer
Without it: --accumulate_steps cannot scale the loss
For: the trainer

Losses are scaled by that number: by optimizers of tf.compat.v1.train, tf.nn.compute_average_loss and
tf.nn.scale_regularization_loss, and by jobs that ask for it.
"""

import contextlib
import threading
from collections.abc import Iterator

import tensorflow as tf

_of_thread = threading.local()


@contextlib.contextmanager
def times(count: int) -> Iterator[None]:
    """Within it, in this thread, `num_replicas_in_sync` is `count` times as high."""
    for kind in (tf.distribute.Strategy, tf.compat.v1.distribute.Strategy):
        if not isinstance(kind.num_replicas_in_sync, _Multiplied):
            kind.num_replicas_in_sync = _Multiplied(kind.num_replicas_in_sync)
    before, _of_thread.factor = factor(), count
    try:
        yield
    finally:
        _of_thread.factor = before


def factor() -> int:
    """By what `num_replicas_in_sync` is multiplied here."""
    return getattr(_of_thread, 'factor', 1)


class _Multiplied(property):
    def __init__(self, original: property):
        super().__init__(lambda strategy: original.__get__(strategy) * factor(), doc=original.__doc__)


def scaled_by_optimizers() -> contextlib.AbstractContextManager[None]:
    """A context manager: optimizers of tf.compat.v1.train divide the loss by `num_replicas_in_sync`, as they do in an
    Estimator with a strategy."""
    strategy = tf.distribute.get_strategy()
    if tf.distribute.has_strategy():  # Estimator has entered it
        return contextlib.nullcontext()
    return strategy._scale_loss_for_estimator_enabled()


def loss_is_mean() -> bool:
    """Whether the loss of a step is the mean of the losses that a model_fn of this graph has given, and not their sum.
    Estimator has the same rule for the replicas of a strategy."""
    return loss_is_divided() and tf.compat.v1.distribute.get_loss_reduction() == tf.distribute.ReduceOp.MEAN


def loss_is_divided() -> bool:
    """Whether an optimizer, or the head of a canned Estimator, has divided a loss of this graph by the replicas."""
    return tf.compat.v1.get_default_graph()._is_loss_scaled_by_optimizer
