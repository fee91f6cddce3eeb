"""--mixed_precision=float16 in keras_fit and custom_loop: dynamic loss scaling.

Gradients of float16 vanish below 6e-8 and overflow above 65504. So a step multiplies its loss by a scale before the
backward pass, and divides the gradients, which are float32 by then, by the same number. Scales are powers of two: they
change no digit of a gradient that neither vanishes nor overflows.

The numbers are those of tf.keras.mixed_precision.LossScaleOptimizer: the scale begins at 2**15, doubles after 2000
steps in a row with finite gradients, and is halved, to 1 at the least, where a gradient is not finite. That optimizer
then drops the batch and counts a step. Here **the same batch is computed again** with half the scale, within the step,
so that each step trains its batch, as in float32. The forward pass may have changed something, such as the averages of
a BatchNormalization and the sums of metrics: it is put back first. A layer that draws random numbers from an operation
of its own draws others.

If the loss is not finite, or the gradients are not with the scale 1, they are applied as float32 would apply them, and
the run ends as it does there. What counts are the gradients summed over all replicas, so that all tasks agree.
"""

import functools
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from estimator_trainer.compat.patches import optimizer_parts
from estimator_trainer.config import mixed_precision
from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import keras_models
from estimator_trainer.jobs.job_types import KerasMetric, KerasModel, KerasOptimizer
from estimator_trainer.training import accumulated_batches

_log = logging.getLogger('estimator_trainer')
Gradients = accumulated_batches.Gradients


class LossScale:
    """The scale of a run, and what it follows from. Made in the strategy's scope.

    Attributes:
        state: what a checkpoint holds, named as Keras names it.
        repeated: attempts of this process that were repeated.
    """

    def __init__(self) -> None:
        self.scale = tf.Variable(mixed_precision.FIRST_SCALE, trainable=False, name='current_loss_scale')
        self._finite_steps = tf.Variable(0, trainable=False, dtype=tf.int64, name='good_steps')
        self.repeated = tf.Variable(0, trainable=False, dtype=tf.int64)
        self.state = tf.train.Checkpoint(current_loss_scale=self.scale, good_steps=self._finite_steps)

    def step_is_taken(self, is_finite: tf.Tensor) -> None:
        """`is_finite`: whether its gradients were."""
        steps = tf.where(is_finite, self._finite_steps + 1, tf.zeros([], tf.int64))
        larger = self.scale * 2
        grows = steps >= mixed_precision.GROWTH_STEPS
        self.scale.assign(tf.where(grows & tf.math.is_finite(larger), larger, self.scale))
        self._finite_steps.assign(tf.where(grows, tf.zeros_like(steps), steps))

    def attempt_is_repeated(self) -> None:
        self.scale.assign(tf.maximum(self.scale / 2, mixed_precision.LEAST_SCALE))
        self._finite_steps.assign(0)
        self.repeated.assign(self.repeated + 1)


class RepeatedStep:
    """A step whose batch is computed again while its gradients overflow.

    Args:
        gradients: (features, labels, scale=) -> (a replica's share of the loss, its gradients), for one batch.
        metrics: that `gradients` updates.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        scale: LossScale,
        model: KerasModel,
        optimizer: KerasOptimizer,
        gradients: Callable[..., tuple[tf.Tensor, Gradients]],
        metrics: Iterable[KerasMetric],
    ):
        self._strategy, self._scale, self._model, self._optimizer = strategy, scale, model, optimizer
        self._gradients, self._metrics = gradients, list(metrics)

    def take(self, batches: Sequence[Any], summed: Callable[[Any], tf.Tensor]) -> tf.Tensor:
        """Takes a step, outside of the replicas.

        Args:
            batches: one of each micro-batch, for all replicas.
            summed: (shares of the loss) -> [loss, ...] over all replicas.

        Returns:
            What `summed` gives of the attempt that was applied.
        """
        state = _State(self._strategy, self._changed_by_forward_pass())

        def attempt(_: tf.Tensor, __: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            scale = self._scale.scale.read_value()
            shares, gradients, are_finite = self._strategy.run(self._attempt, (scale, *batches))
            sums = summed(shares)
            is_finite = self._strategy.experimental_local_results(are_finite)[0]  # the same in all of them
            again = ~is_finite & (scale > mixed_precision.LEAST_SCALE) & tf.math.is_finite(sums[0])

            def repeat() -> tf.Tensor:
                state.put_back()
                self._scale.attempt_is_repeated()
                return again

            def apply() -> tf.Tensor:
                self._strategy.run(self._apply, (gradients,))
                self._scale.step_is_taken(is_finite)
                return again

            return tf.cond(again, repeat, apply), sums

        first = tf.constant(True), tf.zeros([2])
        return tf.while_loop(lambda again, _: again, attempt, first, parallel_iterations=1)[1]

    def _attempt(self, scale: tf.Tensor, *batches: tuple) -> tuple[tf.Tensor, Gradients, tf.Tensor]:
        """A replica's share of the loss, and gradients summed over all replicas with whether all of them are finite."""
        of_batch = functools.partial(self._gradients, scale=scale)
        share, gradients = accumulated_batches.added_up(of_batch, batches)
        reduced = optimizer_parts.all_reduced(self._optimizer, gradients, self._model.trainable_variables)
        parts = [tf.reduce_all(tf.math.is_finite(_values(each))) for each in reduced if each is not None]
        return share, reduced, tf.reduce_all(parts)

    def _apply(self, gradients: Gradients) -> None:
        pairs = zip(gradients, self._model.trainable_variables)
        self._optimizer.apply_gradients(pairs, experimental_aggregate_gradients=False)

    def _changed_by_forward_pass(self) -> list[tf.Variable]:
        of_metrics = [variable for metric in self._metrics for variable in metric.variables]
        return [*self._model.non_trainable_variables, *keras_models.rnn_states(self._model), *of_metrics]


class _State:
    """The values that variables have before a step."""

    def __init__(self, strategy: tf.distribute.Strategy, variables: Sequence[tf.Variable]):
        # Each replica has its own value of those that are summed or averaged as they are read.
        on_read = tf.VariableSynchronization.ON_READ
        self._strategy = strategy
        self._own = [variable for variable in variables if variable.synchronization == on_read]
        self._common = [variable for variable in variables if variable.synchronization != on_read]
        self._own_values = strategy.run(self._read_own) if self._own else []
        self._common_values = [variable.read_value() for variable in self._common]

    def put_back(self) -> None:
        for variable, value in zip(self._common, self._common_values):
            variable.assign(value)
        if self._own:
            self._strategy.run(self._assign_own, (self._own_values,))

    def _read_own(self) -> list[tf.Tensor]:
        return [variable.read_value() for variable in self._own]

    def _assign_own(self, values: Sequence[tf.Tensor]) -> None:
        for variable, value in zip(self._own, values):
            variable.assign(value)


class OverflowLines:
    """Says which attempts were repeated: the first ones at once, later ones at most as often as the progress.

    Args:
        every: of `dues.every`, of --log_every_steps.
    """

    def __init__(self, scale: LossScale, every: Callable[[int], int | None]):
        self._scale, self._every, self._said = scale, every, 0
        self._next: int | None = None

    def after(self, step: int, is_over: bool = False) -> None:
        """A call has taken the steps until this one. `is_over`: training has ended."""
        repeated = int(self._scale.repeated.numpy())
        is_due = is_over or not self._said or (self._next is not None and step >= self._next)
        if repeated == self._said or not is_due:
            return
        scale = float(self._scale.scale.numpy())
        _log.info('%s', mixed_precision.repeated(step, repeated - self._said, repeated, scale))
        self._said, self._next = repeated, self._every(step)


def of_run(kind: str | None, model: KerasModel) -> LossScale | None:
    """The loss scale of a --mixed_precision; None: it needs none.

    Raises:
        UsageError: the model has no weights yet, of which a step keeps those that its forward pass changes.
    """
    if kind != mixed_precision.FLOAT16:
        return None
    if not model.built:
        raise UsageError(
            '--mixed_precision=float16: make_model gives a model that has no weights yet; let make_model call it once, '
            'or give it the shape of its input (model.build).'
        )
    return LossScale()


def unscaled(gradients: Gradients, scale: tf.Tensor) -> Gradients:
    """Gradients of a loss that was multiplied by `scale`."""
    factor = 1.0 / scale
    return [each if each is None else _times(each, factor) for each in gradients]


def _times(gradient: Any, factor: tf.Tensor) -> Any:
    values = _values(gradient)
    product = values * tf.cast(factor, values.dtype)
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(product, gradient.indices, gradient.dense_shape)
    return product


def _values(gradient: Any) -> tf.Tensor:
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
