"""Optimizers and a tape whose gradients are those of all ranks: DistributedOptimizer and DistributedGradientTape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from estimator_trainer.compat.horovod import collectives, world

v1 = tf.compat.v1


def gradients_of_all(
    gradients: Sequence[Any], operation: str, compression: Any, sparse_as_dense: bool, name: str | None = None
) -> list:
    """The gradients of a step, reduced over all ranks in one operation."""
    if world.place().size == 1:
        return list(gradients)
    given, contexts = [], []
    for gradient in gradients:
        if sparse_as_dense and isinstance(gradient, tf.IndexedSlices):
            gradient = tf.convert_to_tensor(gradient)
        context = None
        if gradient is not None and not isinstance(gradient, tf.IndexedSlices):
            gradient, context = compression.compress(gradient)
        given.append(gradient)
        contexts.append(context)
    reduced = collectives.reduce_all(given, operation, name)
    return [
        each if each is None or isinstance(each, tf.IndexedSlices) else compression.decompress(each, context)
        for each, context in zip(reduced, contexts)
    ]


def make_optimizer(
    optimizer: Any,
    name: str | None,
    use_locking: bool,
    passes: int,
    averages: bool,
    reduce: Callable[[list[Any]], list[Any]],
) -> Any:
    """The optimizer with the gradients of all ranks.

    Args:
        optimizer: of tf.compat.v1.train, or of Keras.
        passes: backward_passes_per_step.
        averages: average_aggregated_gradients.
        reduce: gradients -> the same of all ranks.

    Raises:
        ValueError: it is no optimizer.
    """
    accumulation = Accumulation(passes, averages, reduce)
    if isinstance(optimizer, v1.train.Optimizer):
        return V1Optimizer(optimizer, name, use_locking, accumulation)
    if hasattr(optimizer, 'apply_gradients') and hasattr(optimizer, 'from_config'):
        return _of_keras(optimizer, name, accumulation)
    raise ValueError(f'{optimizer!r} is no optimizer: give one of tf.compat.v1.train or of tf.keras.optimizers')


class V1Optimizer(tf.compat.v1.train.Optimizer):
    """Another optimizer of tf.compat.v1.train, whose compute_gradients gives those of all ranks."""

    def __init__(self, optimizer: Any, name: str | None, use_locking: bool, accumulation: Accumulation) -> None:
        super().__init__(use_locking, name or f'Distributed{type(optimizer).__name__}')
        self._of_program, self._accumulation = optimizer, accumulation

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, tf.Variable]]:
        gradients, variables = zip(*self._of_program.compute_gradients(*args, **kwargs))
        return list(zip(self._accumulation.reduced(gradients, variables), variables))

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, tf.Variable]],
        global_step: tf.Variable | None = None,
        name: str | None = None,
    ) -> Any:
        pairs = list(grads_and_vars)
        return self._accumulation.apply(
            [gradient for gradient, _ in pairs],
            lambda: self._of_program.apply_gradients(pairs, global_step, name),
            lambda: None if global_step is None else v1.assign_add(global_step, 1).op,
        )

    def get_slot(self, *args: Any, **kwargs: Any) -> tf.Variable | None:
        return self._of_program.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> list[str]:
        return self._of_program.get_slot_names(*args, **kwargs)

    def variables(self, *args: Any, **kwargs: Any) -> list[tf.Variable]:
        return self._of_program.variables(*args, **kwargs)


def _of_keras(optimizer: Any, name: str | None, accumulation: Accumulation) -> Any:
    """An optimizer of the same class, settings and name, so that Keras can load what it saves without Horovod."""

    kind: Any = type(optimizer)

    class Distributed(kind):
        def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, tf.Variable]], *args: Any, **kwargs: Any) -> Any:
            pairs = list(grads_and_vars)
            variables = [variable for _, variable in pairs]
            gradients = accumulation.reduced([gradient for gradient, _ in pairs], variables)
            plain = super().apply_gradients

            def count() -> None:
                self.iterations.assign_add(1)

            return accumulation.apply(gradients, lambda: plain(list(zip(gradients, variables)), *args, **kwargs), count)

    Distributed.__name__ = Distributed.__qualname__ = kind.__name__
    config = optimizer.get_config()
    return Distributed.from_config({**config, 'name': name} if name else config)


class DistributedTape:
    """A tf.GradientTape whose gradient() gives those of all ranks; all else is the tape's own."""

    def __init__(self, tape: tf.GradientTape, reduce: Callable[[list[Any]], list[Any]]) -> None:
        self._tape, self._reduce = tape, reduce

    def __enter__(self) -> DistributedTape:
        self._tape.__enter__()
        return self

    def __exit__(self, *args: Any) -> Any:
        return self._tape.__exit__(*args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tape, name)

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: tf.UnconnectedGradients = tf.UnconnectedGradients.NONE,
    ) -> Any:
        gradients = self._tape.gradient(target, sources, output_gradients, unconnected_gradients)
        return tf.nest.pack_sequence_as(gradients, self._reduce(_flat(gradients)), expand_composites=False)


def _flat(structure: Any) -> list[Any]:
    return tf.nest.flatten(structure, expand_composites=False)


def broadcast_variables(variables: Iterable[tf.Variable], root_rank: int) -> tf.Operation:
    """Gives the variables the values that they have in rank `root_rank`. An operation where a graph is built."""
    variables = list(variables)
    values = collectives.broadcast_all([variable.read_value() for variable in variables], root_rank)
    if world.place().size == 1:
        return tf.group()
    return tf.group(*[variable.assign(value) for variable, value in zip(variables, values)])


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

    def apply(self, gradients: Sequence[Any], apply: Callable[[], Any], count: Callable[[], Any]) -> Any:
        """Calls `apply()` after every N-th pass, and `count()` after the others. Each may return an operation."""
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
