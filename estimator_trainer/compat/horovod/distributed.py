"""Optimizers and a tape whose gradients are those of all ranks: DistributedOptimizer and DistributedGradientTape."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from estimator_trainer.compat import lacks
from estimator_trainer.compat.horovod import collectives, world
from estimator_trainer.compat.horovod.accumulation import Accumulation

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
    """An optimizer of the same class, settings and name, so that Keras can load what it saves without Horovod.

    Touches: Optimizer.aggregate_gradients of Keras, and _aggregate_gradients of its legacy optimizers
    Without it: a rank whose gradients overflow with mixed_float16 leaves an exchange out that the others wait for
    For: programs that import Horovod

    A LossScaleOptimizer, which the policy mixed_float16 makes around it, lets it aggregate the gradients first, and
    leaves the step out where one is not finite: that has to be one of all ranks.
    """

    kind: Any = type(optimizer)

    class Distributed(kind):
        accumulation_of_ranks = accumulation

        def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, tf.Variable]], *args: Any, **kwargs: Any) -> Any:
            plain = super().apply_gradients
            if kwargs.get('skip_gradients_aggregation') or not kwargs.get('experimental_aggregate_gradients', True):
                return plain(grads_and_vars, *args, **kwargs)
            pairs = list(grads_and_vars)
            variables = [variable for _, variable in pairs]
            gradients = accumulation.reduced([gradient for gradient, _ in pairs], variables)

            def count() -> None:
                self.iterations.assign_add(1)

            return accumulation.apply(gradients, lambda: plain(list(zip(gradients, variables)), *args, **kwargs), count)

        def aggregate_gradients(self, grads_and_vars: Iterable[tuple[Any, tf.Variable]]) -> Any:
            return super().aggregate_gradients(accumulation.exchanged(grads_and_vars))

        def _aggregate_gradients(self, grads_and_vars: Iterable[tuple[Any, tf.Variable]]) -> Any:
            return super()._aggregate_gradients(accumulation.exchanged(grads_and_vars))

    if hasattr(kind, 'aggregate_gradients'):  # it is no legacy one
        keep_in_estimators()
    Distributed.__name__ = Distributed.__qualname__ = kind.__name__
    config = optimizer.get_config()
    return Distributed.from_config({**config, 'name': name} if name else config)


@functools.cache
def keep_in_estimators() -> None:
    """A legacy optimizer that an Estimator makes of a new one has the gradients of all ranks as well, if that one has.

    Touches: tf.keras.__internal__.optimizers.convert_to_legacy_optimizer, and the same in its module
    Without it: tf.keras.estimator.model_to_estimator trains each rank on its own data alone
    For: programs that import Horovod
    """
    with lacks.refused():
        plain = tf.keras.__internal__.optimizers.convert_to_legacy_optimizer

    @functools.wraps(plain)
    def convert(optimizer: Any) -> Any:
        converted = plain(optimizer)
        accumulation = getattr(type(optimizer), 'accumulation_of_ranks', None)
        if accumulation is None or hasattr(type(converted), 'accumulation_of_ranks'):
            return converted
        return _of_keras(converted, None, accumulation)

    modules: tuple[Any, ...] = (tf.keras.__internal__.optimizers, sys.modules[plain.__module__])
    for module in modules:
        module.convert_to_legacy_optimizer = convert


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
