"""Gradients of several passes that are added up before the ranks exchange them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1


class Accumulation:
    """Adds up gradients of several passes before the ranks exchange them: backward_passes_per_step.

    It adds them up in this process, and lets every N-th pass through.

    Args:
        passes: N.
        averages: divide by N.
        reduce: gradients -> the same of all ranks.
    """

    def __init__(self, passes: int, averages: bool, reduce: Callable[[list[Any]], list[Any]]) -> None:
        if passes < 1:
            raise ValueError(f'backward_passes_per_step={passes}: give 1 or more')
        self._passes, self._divisor, self._reduce = passes, passes if averages else 1, reduce
        self._sums: dict = {}  # by graph, or for all that runs at once
        self._due: dict = {}
        self._is_applied = False  # at the moment

    def reduced(self, gradients: Sequence[Any], variables: Sequence[tf.Variable]) -> list:
        """What to apply; after a pass that is not the N-th, the gradients of this pass, which `apply` leaves out."""
        if self._passes == 1:
            return self._reduce(list(gradients))
        present = [index for index, gradient in enumerate(gradients) if gradient is not None]
        given = [tf.convert_to_tensor(gradients[index]) for index in present]
        counter, sums = self._made([(variables[index].shape, each.dtype) for index, each in zip(present, given)])
        with tf.control_dependencies([total.assign_add(each) for total, each in zip(sums, given)]):
            due = tf.equal(counter.assign_add(1) % self._passes, 0)

        def all_passes() -> list[tf.Tensor]:
            values = [total.read_value() for total in sums]
            with tf.control_dependencies(values):
                averages = [each / self._divisor for each in self._reduce(values)]
            with tf.control_dependencies(averages):
                cleared = [total.assign(tf.zeros_like(total)) for total in sums]
            with tf.control_dependencies(cleared):
                return [tf.identity(each) for each in averages]

        passed = tf.cond(due, all_passes, lambda: [tf.identity(each) for each in given])
        self._due[self._graph()] = due
        results = list(gradients)
        for index, each in zip(present, passed if isinstance(passed, (list, tuple)) else [passed]):
            results[index] = each
        return results

    def exchanged(self, grads_and_vars: Iterable[tuple[Any, tf.Variable]]) -> list[tuple[Any, tf.Variable]]:
        """The pairs with the gradients of all ranks; within `apply` they have these already.

        Raises:
            ValueError: they are to be added up before.
        """
        pairs = list(grads_and_vars)
        if self._is_applied:
            return pairs
        if self._passes > 1:
            raise ValueError(
                f'backward_passes_per_step={self._passes} within a LossScaleOptimizer, which the policy mixed_float16 '
                'makes around each optimizer: give 1'
            )
        return list(zip(self._reduce([gradient for gradient, _ in pairs]), [variable for _, variable in pairs]))

    def apply(self, gradients: Sequence[Any], apply: Callable[[], Any], count: Callable[[], Any]) -> Any:
        """Calls `apply()` after every N-th pass, and `count()` after the others. Each may return an operation."""
        self._is_applied = True
        try:
            return self._applied(gradients, apply, count)
        finally:
            self._is_applied = False

    def _applied(self, gradients: Sequence[Any], apply: Callable[[], Any], count: Callable[[], Any]) -> Any:
        if self._passes == 1:
            return apply()

        def done(function: Callable[[], Any]) -> tf.Tensor:
            with tf.control_dependencies([each for each in (function(),) if each is not None]):
                return tf.constant(True)

        with tf.control_dependencies([tf.convert_to_tensor(each) for each in gradients if each is not None]):
            return tf.group(tf.cond(self._due[self._graph()], lambda: done(apply), lambda: done(count)))

    def _graph(self) -> tf.Graph | None:
        return None if tf.executing_eagerly() else v1.get_default_graph()

    def _made(self, kinds: Sequence[tuple[tf.TensorShape, tf.DType]]) -> tuple[tf.Variable, list[tf.Variable]]:
        """(counter, sums) of this graph. They are local variables: no checkpoint has them."""
        with tf.init_scope():
            graph = self._graph()
            if graph not in self._sums:
                made = [_variable((), tf.int64)] + [_variable(shape, dtype) for shape, dtype in kinds]
                self._sums[graph] = made[0], made[1:]
            return self._sums[graph]


def _variable(shape: tf.TensorShape | tuple[()], dtype: tf.DType) -> tf.Variable:
    return v1.Variable(
        tf.zeros(shape, dtype),
        trainable=False,
        collections=[v1.GraphKeys.LOCAL_VARIABLES],
        name='accumulated',
        use_resource=True,
    )
