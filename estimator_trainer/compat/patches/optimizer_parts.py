"""The settings of an optimizer, and all of its variables before the first step.

Touches: _hyper, _initial_decay, _momentum, _name, _create_all_weights, _transform_unaggregated_gradients and
  _aggregate_gradients of tf.keras.optimizers.legacy; private attributes of the optimizers of tf.compat.v1.train
Without it: Keras's loops cannot restore an optimizer before its first step or train in float16, and `migrate` cannot
  read the settings of one
For: the trainer and `migrate`
"""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import tensorflow as tf


def settings(optimizer: Any) -> dict[str, Any]:
    """{name: number, tensor or schedule} of one of tf.keras.optimizers.legacy. Its attributes, and get_config, would
    make variables or compute a rate."""
    return optimizer._hyper


def setting(optimizer: Any, name: str) -> Any:
    """One of tf.keras.optimizers.legacy: a setting that may be outside `settings`."""
    if name in optimizer._hyper:
        return optimizer._hyper[name]
    return getattr(optimizer, name if hasattr(optimizer, name) else f'_{name}')


def numbers(optimizer: Any) -> dict[str, float]:
    """Those of `settings` that are plain numbers: `create_variables` makes variables of them, and a checkpoint has
    these."""
    return {name: value for name, value in optimizer._hyper.items() if isinstance(value, (int, float))}


def set_numbers(optimizer: Any, numbers: Mapping[str, float]) -> None:
    """Gives the variables of some settings these values."""
    for name, value in numbers.items():
        optimizer._hyper[name].assign(value)


def decay(optimizer: Any) -> Any:
    """The inverse decay over time of one of tf.keras.optimizers.legacy."""
    return optimizer._initial_decay


def changes_gradients(optimizer: Any) -> bool:
    """Whether one of tf.keras.optimizers.legacy was given functions that aggregate or transform gradients."""
    of_keras = tf.keras.optimizers.legacy.SGD().gradient_aggregator
    return bool(optimizer.gradient_transformers) or optimizer.gradient_aggregator is not of_keras


def has_momentum(optimizer: Any) -> bool:
    """Whether one of tf.keras.optimizers.legacy.SGD has a momentum."""
    return optimizer._momentum


def name_of(optimizer: Any) -> str | None:
    """Its name, which its slots have as well; None: it has none."""
    return getattr(optimizer, '_name', None)


def create_variables(optimizer: Any, variables: Iterable[tf.Variable]) -> None:
    """Makes the slots of these variables, and the counter of steps."""
    optimizer._create_all_weights(variables)


def all_reduced(optimizer: Any, gradients: Iterable[Any], variables: Iterable[tf.Variable]) -> list[Any]:
    """The gradients of one of tf.keras.optimizers.legacy summed over all replicas, as its apply_gradients sums them.
    None stays None."""
    pairs = [(gradient, variable) for gradient, variable in zip(gradients, variables)]
    present = [pair for pair in pairs if pair[0] is not None]
    sums = iter(optimizer._aggregate_gradients(optimizer._transform_unaggregated_gradients(present)))
    return [None if gradient is None else next(sums)[0] for gradient, _ in pairs]


def setting_of_v1(optimizer: Any, names: Iterable[str]) -> Any:
    """The first of the attributes `_name` that one of tf.compat.v1.train has."""
    return next(getattr(optimizer, f'_{name}') for name in names if hasattr(optimizer, f'_{name}'))


def slot_name_of_v1(optimizer: Any, slot: str) -> str:
    """What an optimizer of tf.compat.v1.train calls this slot in a graph."""
    own = getattr(optimizer, {'accumulator': '_accum_name', 'linear': '_linear_name'}.get(slot, ''), None)
    return own or optimizer._name


_computed: weakref.WeakKeyDictionary[tf.Graph, set[str]] = weakref.WeakKeyDictionary()
_applied: weakref.WeakKeyDictionary[tf.Graph, set[str]] = weakref.WeakKeyDictionary()
_applied_by_keras: weakref.WeakSet[tf.Graph] = weakref.WeakSet()


def note_gradients() -> None:
    """From now on it is known which kind of optimizer has computed or applied gradients in a graph.

    Touches: compute_gradients and apply_gradients of tf.compat.v1.train.Optimizer, and apply_gradients of
      tf.keras.optimizers.legacy.Optimizer
    Without it: the trainer cannot warn of gradients that are added up undivided
    For: the trainer
    """
    kind = tf.compat.v1.train.Optimizer
    if not hasattr(kind.compute_gradients, 'notes'):
        kind.compute_gradients = _noting_result(kind.compute_gradients)
        kind.apply_gradients = _noting_first(kind.apply_gradients)
        of_keras = tf.keras.optimizers.legacy.Optimizer
        of_keras.apply_gradients = _noting_graph(of_keras.apply_gradients)


def noted_gradients(graph: tf.Graph) -> tuple[set[str], set[str]]:
    """The names of operations since `note_gradients`: of all gradients that optimizers of tf.compat.v1.train have
    computed in this graph, and of the first one of each call that has applied some."""
    return _computed.get(graph, set()), _applied.get(graph, set())


def has_keras_applied(graph: tf.Graph) -> bool:
    """Whether since `note_gradients` one of tf.keras.optimizers.legacy has applied gradients in this graph. It adds up
    those of all replicas, and divides none."""
    return graph in _applied_by_keras


def _noting_result(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def compute_gradients(*args: Any, **kwargs: Any) -> Any:
        computed = original(*args, **kwargs)
        _note(_computed, [gradient for gradient, _ in computed])
        return computed

    compute_gradients.notes = True  # type: ignore[attr-defined]
    return compute_gradients


def _noting_first(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def apply_gradients(optimizer: Any, grads_and_vars: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
        pairs = list(grads_and_vars)
        _note(_applied, [gradient for gradient, _ in pairs if gradient is not None][:1])
        return original(optimizer, pairs, *args, **kwargs)

    return apply_gradients


def _noting_graph(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def apply_gradients(*args: Any, **kwargs: Any) -> Any:
        _applied_by_keras.add(tf.compat.v1.get_default_graph())
        return original(*args, **kwargs)

    return apply_gradients


def _note(notes: weakref.WeakKeyDictionary[tf.Graph, set[str]], gradients: Iterable[Any]) -> None:
    graph = tf.compat.v1.get_default_graph()
    for gradient in gradients:
        tensor = getattr(gradient, 'values', gradient)
        if getattr(tensor, 'graph', None) is graph:  # else it is None, or of a condition
            notes.setdefault(graph, set()).add(tensor.op.name)


@contextlib.contextmanager
def apply_gradients_replaced(
    by: Callable[[Callable[..., Any]], Callable[..., Any]], refuse: Callable[..., Any] | None = None
) -> Iterator[None]:
    """Within it, in this thread, optimizers call by(original) in place of their apply_gradients. A strategy builds its
    replicas in threads of their own, which enter and leave it in any order.

    Touches: apply_gradients of tf.compat.v1.train.Optimizer, tf.keras.optimizers.legacy.Optimizer and
      tf.compat.v1.train.SyncReplicasOptimizer
    Without it: --sync_ps cannot apply the mean of all workers, and `migrate` cannot tell which optimizer trains what
    For: the trainer and `migrate`

    Args:
        by: (apply_gradients of a class) -> what takes its place.
        refuse: takes the place of that of a SyncReplicasOptimizer; None: that one is left alone.
    """
    v1 = tf.compat.v1.train
    for kind in (v1.Optimizer, tf.keras.optimizers.legacy.Optimizer, v1.SyncReplicasOptimizer):
        if not hasattr(kind.apply_gradients, 'by_thread'):
            kind.apply_gradients = _by_thread(kind.apply_gradients, kind is v1.SyncReplicasOptimizer)
    before = _replaced_here()
    _of_thread.replaced = (*before, (by, refuse))
    try:
        yield
    finally:
        _of_thread.replaced = before


_of_thread = threading.local()


def _replaced_here() -> tuple[tuple[Callable[..., Any], Callable[..., Any] | None], ...]:
    """(by, refuse) of each `apply_gradients_replaced` that this thread has entered."""
    return getattr(_of_thread, 'replaced', ())


def _by_thread(original: Callable[..., Any], is_of_replicas: bool) -> Callable[..., Any]:
    """An apply_gradients that does what its thread wants. `is_of_replicas`: it is that of a SyncReplicasOptimizer."""

    @functools.wraps(original)
    def apply_gradients(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        function = original
        for by, refuse in _replaced_here():
            if not is_of_replicas:
                function = by(function)
            elif refuse:
                function = refuse
        return function(optimizer, *args, **kwargs)

    apply_gradients.by_thread = True  # type: ignore[attr-defined]
    return apply_gradients


class Momentum(tf.keras.optimizers.legacy.Optimizer):
    """tf.compat.v1.train.MomentumOptimizer as one of tf.keras.optimizers.legacy.

    Touches: what tf.keras.optimizers.legacy.Optimizer has for its subclasses: _set_hyper, _prepare_local and others
    Without it: --optimizer=momentum would train other weights in Keras's loops than in an Estimator
    For: the trainer

    The velocity sums gradients, and the rate multiplies it. Keras's SGD sums gradients times rate: with a rate that
    changes this is another computation. Slot: 'momentum'.
    """

    _HAS_AGGREGATE_GRAD = True

    def __init__(self, learning_rate: Any = 0.01, momentum: float = 0.9, name: str = 'Momentum', **kwargs: Any) -> None:
        super().__init__(name, **kwargs)
        self._set_hyper('learning_rate', kwargs.get('lr', learning_rate))
        self._set_hyper('momentum', momentum)

    def _create_slots(self, var_list: Iterable[tf.Variable]) -> None:
        for variable in var_list:
            self.add_slot(variable, 'momentum')

    def _prepare_local(self, var_device: str, var_dtype: tf.DType, apply_state: dict[Any, Any]) -> None:
        super()._prepare_local(var_device, var_dtype, apply_state)
        apply_state[(var_device, var_dtype)]['momentum'] = tf.identity(self._get_hyper('momentum', var_dtype))

    def _resource_apply_dense(
        self, grad: tf.Tensor, var: tf.Variable, apply_state: dict[Any, Any] | None = None
    ) -> tf.Operation:
        return self._apply(tf.raw_ops.ResourceApplyMomentum, var, apply_state, grad=grad)

    def _resource_apply_sparse(
        self, grad: tf.Tensor, var: tf.Variable, indices: tf.Tensor, apply_state: dict[Any, Any] | None = None
    ) -> tf.Operation:
        return self._apply(tf.raw_ops.ResourceSparseApplyMomentum, var, apply_state, grad=grad, indices=indices)

    def _apply(
        self, kernel: Callable[..., Any], var: tf.Variable, apply_state: dict[Any, Any] | None, **gradient: Any
    ) -> tf.Operation:
        key = var.device, var.dtype.base_dtype
        now = (apply_state or {}).get(key) or self._fallback_apply_state(*key)
        return kernel(
            var=var.handle,
            accum=self.get_slot(var, 'momentum').handle,
            lr=now['lr_t'],
            momentum=now['momentum'],
            use_locking=self._use_locking,
            **gradient,
        )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            'learning_rate': self._serialize_hyperparameter('learning_rate'),
            'momentum': self._serialize_hyperparameter('momentum'),
        }
