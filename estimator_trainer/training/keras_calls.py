"""The calls of keras_fit and custom_loop that take several steps (--steps_per_call)."""

import time
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from estimator_trainer.compat.patches import eager_context
from estimator_trainer.training import dues, from_memory, loss_scaling, step_graph
from estimator_trainer.training.trainer import Setup

Batches: TypeAlias = tf.distribute.DistributedIterator | from_memory.Iterator
# (batch, ...) -> a replica's share of the loss; or a step that is taken outside of the replicas.
Step: TypeAlias = Callable[..., tf.Tensor] | loss_scaling.RepeatedStep


def losses_of_calls(
    setup: Setup, strategy: tf.distribute.Strategy, step: Step, iterator: Batches
) -> Iterator[np.ndarray]:
    """Trains; yields the losses of the steps of each call. It ends with the data; the caller may end it before.

    Args:
        setup: trainer.Setup. Its loop says how long each call is.
        step: trains one step with --accumulate_steps batches.
        iterator: over the distributed data set, or what gives its batches.
    """
    take_steps = call_of_steps(strategy, step, setup.plan.config.accumulate_steps)
    loop, most, alone = setup.loop, setup.plan.config.most_steps_per_call, setup.plan.trains_alone
    while True:
        until_due = loop.next_due(loop.step, alone) - loop.step
        count = until_due if most is None else min(most, until_due)
        losses, waited, ended = take_steps(iterator, tf.constant(count), dues.LONGEST_CALL_SECS)
        if len(losses):
            setup.waits.for_input(float(waited))
            yield losses.numpy()
        if ended:
            return


def call_of_steps(
    strategy: tf.distribute.Strategy, step: Step, accumulated: int = 1
) -> Callable[..., tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
    """-> (iterator, count, secs) -> (losses [steps], seconds that they waited for their batches, whether the data have
    ended). The seconds are NaN where they are not measured.

    The function trains `count` steps; fewer where the data end, or where they have taken `secs` by the clock of the
    chief: it is told in the reduction of the loss, so that all tasks take the same steps.
    """

    def summed(shares: Any, began: tf.Tensor) -> tf.Tensor:
        """[loss, seconds since `began`]"""
        of_replicas = strategy.run(lambda share: _with_time(share, began), (shares,))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, of_replicas, axis=None)

    def take_plain(batches: tuple, summed: Callable[[Any], tf.Tensor]) -> tf.Tensor:
        return summed(strategy.run(step, batches))

    take = step.take if isinstance(step, loss_scaling.RepeatedStep) else take_plain

    @tf.function(reduce_retracing=True)
    def take_steps(iterator: Batches, count: tf.Tensor, secs: float) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        waits = not isinstance(iterator, from_memory.Iterator)
        # Of each step: loss, seconds since the call began, and the wait for its batches.
        of_steps = tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=[2 + waits])
        began, left = _now(), count  # left: 0 where the time is over, and less where the data have ended
        while left > 0:
            batches = [iterator.get_next_as_optional() for _ in range(accumulated)]  # all are there, or none is
            wait = [[_wait_for_input()]] if waits else []
            if batches[0].has_value():
                taken = tuple(batch.get_value() for batch in batches)
                of_step = take(taken, lambda shares: summed(shares, began))
                of_steps = of_steps.write(count - left, tf.concat([of_step, *wait], 0))
                left = tf.where(tf.unstack(of_step)[1] < secs, left - 1, 0)
            else:
                left = tf.constant(-1)
        losses, _, *waited = tf.unstack(of_steps.stack(), axis=1)
        waited = tf.reduce_sum(waited) if waits else _seconds(from_memory.wait())
        return losses, waited, left < 0

    return take_steps


def _wait_for_input() -> tf.Tensor:
    """The wait of the iterators that the graph under construction has asked so far."""
    return _seconds(step_graph.measured_wait(tf.compat.v1.get_default_graph().get_operations()))


def _seconds(wait: tf.Tensor | float | None) -> tf.Tensor:
    """NaN if it is not measured."""
    return tf.constant(float('nan')) if wait is None else tf.cast(wait, tf.float32)


def _with_time(share: tf.Tensor, began: tf.Tensor) -> tf.Tensor:
    """A replica's share of the loss, and of the first replica the seconds since `began`."""
    with tf.control_dependencies([share]), tf.device('/cpu:0'):
        passed = tf.cast(_now() - began, tf.float32)
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    return tf.stack([tf.cast(share, tf.float32), tf.where(tf.equal(replica, 0), passed, 0.0)])


def _now() -> tf.Tensor:
    """Seconds by some clock. TensorFlow's own may not be read where its operations have to be deterministic."""
    if eager_context.is_deterministic():
        return tf.ensure_shape(tf.numpy_function(time.monotonic, [], tf.float64), [])
    return tf.timestamp()
