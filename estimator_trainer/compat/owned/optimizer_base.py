"""What the update rules of Estimators' optimizers share, and one optimizer for each part of a model, for Keras 3.

Touches: _trainable_variables, _get_variable_index and _clip_gradients of keras.optimizers.Optimizer, of Keras 3
Without it: a migrated model that goes on training rounds other than its Estimator did
For: models that `migrate` has written

A rule is a class with three parts: numbers that its constructor takes, slots (a tensor of the shape of each variable),
and `update`, which runs the operations of the original in their order. So the same gradients give the same variables,
bit for bit. A gradient is dense, or holds rows of a table (`tf.IndexedSlices`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import keras
import tensorflow as tf
from traced_function import TracedFunction

Rate = float | Callable[..., Any]  # a number, or a keras.optimizers.schedules.LearningRateSchedule
Gradient: TypeAlias = 'tf.Tensor | tf.IndexedSlices'  # dense, or rows of a table
Slot = tf.Variable

_register = keras.saving.register_keras_serializable('estimator_optimizers')


class EstimatorOptimizer(keras.optimizers.Optimizer):
    """An optimizer whose `update` is written with TensorFlow's operations.

    Args:
        learning_rate: a number, or a keras.optimizers.schedules.LearningRateSchedule.
        numbers: the other settings of the rule. Each becomes an attribute and is part of `get_config`.
        slots: {name of the slot: number that it starts with}.
        scalars: {name of a number that the rule keeps between steps: number that it starts with}. Each becomes an
            attribute, a variable.
        clipnorm, clipvalue, global_clipnorm: bounds of gradients, as in keras.optimizers.Optimizer. On several replicas
            Keras 3 cuts the gradients of each one and adds them up then; Estimators added them up first.
    """

    def __init__(
        self,
        learning_rate: Rate,
        *,
        numbers: dict[str, Any] | None = None,
        slots: dict[str, float] | None = None,
        scalars: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate if callable(learning_rate) else float(learning_rate), **kwargs)
        if scalars and self.gradient_accumulation_steps:
            raise ValueError(f'{type(self).__name__} cannot accumulate gradients.')
        self._numbers = tuple(numbers or ())
        for name, value in (numbers or {}).items():
            setattr(self, name, value)
        self._slot_starts = tuple((slots or {}).items())
        self._scalar_starts = tuple((scalars or {}).items())

    @property
    def updated_variables(self) -> list[Any]:
        """The variables that it was built for."""
        return list(self._trainable_variables)

    @property
    def slot_names(self) -> list[str]:
        return [name for name, _ in self._slot_starts]

    def slot(self, name: str, variable: Any) -> Any:
        """The slot `name` of a variable that the optimizer was built for: a variable of the same shape."""
        return self._slots[self.slot_names.index(name)][self._get_variable_index(variable)]

    def build(self, variables: Sequence[Any]) -> None:
        if self.built:
            return
        super().build(variables)
        self._slots = [
            [self.add_variable_from_reference(v, name=name, initializer=_constant(start)) for v in variables]
            for name, start in self._slot_starts
        ]
        for name, start in self._scalar_starts:
            variable = self.add_variable((), _constant(start), aggregation='only_first_replica', name=name)
            setattr(self, name, variable)

    def update_step(self, gradient: Gradient, variable: Any, learning_rate: tf.Tensor) -> None:
        if not isinstance(gradient, tf.IndexedSlices):
            gradient = tf.cast(gradient, variable.dtype)
        elif self._sums_rows():
            gradient = summed(gradient)
        slots = {name: self.slot(name, variable).value for name in self.slot_names}
        self.update(variable, gradient, tf.cast(learning_rate, variable.dtype), **slots)

    def update(self, variable: tf.Variable, gradient: Gradient, rate: tf.Tensor, **slots: tf.Variable) -> None:
        """Updates one variable and its slots.

        Args:
            variable: a tf.Variable.
            gradient: a tensor, or IndexedSlices in which each row is there once.
            rate: the learning rate, a tensor.
            slots: the slots of the variable by name, each a tf.Variable.
        """
        raise NotImplementedError

    def step(self, dtype: tf.DType) -> tf.Tensor:
        """The number of this step, which is 1 for the first one, as a tensor."""
        return tf.cast(self.iterations, dtype) + 1

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **{name: getattr(self, name) for name in self._numbers}}

    def _sums_rows(self) -> bool:
        return True

    def _clip_gradients(self, grads: Sequence[Any]) -> Sequence[Any]:
        # TensorFlow's functions, and not those of Keras: they take rows, and round as Estimators did.
        if self.clipvalue is not None:
            return [tf.clip_by_value(g, -self.clipvalue, self.clipvalue) for g in grads]
        if self.clipnorm is not None:
            return [tf.clip_by_norm(g, self.clipnorm) for g in grads]
        if self.global_clipnorm is not None:
            return tf.clip_by_global_norm(grads, self.global_clipnorm)[0]
        return grads


def summed(gradient: tf.IndexedSlices) -> tf.IndexedSlices:
    """IndexedSlices in which rows that are there several times have become their sum."""
    rows, places = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(rows))
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


def decay_and_add(average: tf.Variable, decay: tf.Tensor, values: tf.Tensor, rows: tf.Tensor) -> None:
    """Decays all rows of a moving average, a tf.Variable, and adds the new values of some of them."""
    average.assign(average * decay)
    average.scatter_add(tf.IndexedSlices(values * (1 - decay), rows))


def run_kernel(name: str, gradient: Gradient, **arguments: Any) -> None:
    """Runs TensorFlow's kernel `ResourceApply{name}`, or `ResourceSparseApply{name}` for a gradient of rows.

    Args:
        arguments: what the kernel takes besides the gradient: variables, tensors and numbers.
    """
    arguments = {key: getattr(value, 'handle', value) for key, value in arguments.items()}
    if isinstance(gradient, tf.IndexedSlices):
        kernel = getattr(tf.raw_ops, f'ResourceSparseApply{name}')
        kernel(grad=gradient.values, indices=gradient.indices, **arguments)
    else:
        getattr(tf.raw_ops, f'ResourceApply{name}')(grad=gradient, **arguments)


@_register
class TracedSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """A learning rate that an Estimator's model_fn computed from the global step with operations of its own.

    Args:
        traced: the arguments of `TracedFunction`.
    """

    def __init__(self, traced: dict[str, Any], name: str = 'TracedSchedule') -> None:
        self.traced, self.name = dict(traced), name
        self._function = TracedFunction(**traced)

    def __call__(self, step: Any) -> tf.Tensor:
        return self._function(tf.convert_to_tensor(step))

    def get_config(self) -> dict[str, Any]:
        return {'traced': self.traced, 'name': self.name}


@_register
class OptimizerByLayer(keras.optimizers.Optimizer):
    """Updates some layers with optimizers of their own, as DNNLinearCombined does.

    `keras.optimizers.MultiOptimizer` is the same idea; Keras 3.12, the last for Python 3.10, does not have it. Learning
    rates are those of `default` and `by_layer`.

    Args:
        default: the optimizer of all other layers.
        by_layer: {regular expression: optimizer}. The optimizer is for the layers whose names, or the names of models
            that they are in, begin with a match: 'linear_' is for 'linear_occupation'.
    """

    def __init__(
        self,
        default: keras.optimizers.Optimizer,
        by_layer: dict[str, keras.optimizers.Optimizer],
        name: str = 'optimizer_by_layer',
    ) -> None:
        super().__init__(learning_rate=0.0, name=name)
        self.default, self.by_layer = default, dict(by_layer)

    @property
    def optimizers(self) -> list[keras.optimizers.Optimizer]:
        return [self.default, *self.by_layer.values()]

    def optimizer_of(self, variable: Any) -> keras.optimizers.Optimizer:
        """The optimizer of a variable of Keras. Raises ValueError if several expressions match."""
        layers = variable.path.split('/')[:-1]
        keys = [key for key in self.by_layer if any(re.match(key, layer) for layer in layers)]
        if len(keys) > 1:
            raise ValueError(f'Several optimizers are for the variable {variable.path}: those of {sorted(keys)}.')
        return self.by_layer[keys[0]] if keys else self.default

    def build(self, variables: Sequence[Any]) -> None:
        if self.built:
            return
        super().build(variables)
        for optimizer, pairs in self._parts(variables, variables):
            optimizer.build([variable for _, variable in pairs])

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        variables = list(self._trainable_variables if trainable_variables is None else trainable_variables)
        self.build(variables)
        for optimizer, pairs in self._parts(grads, variables):
            if pairs:
                optimizer.apply(*zip(*pairs))
        self.iterations.assign_add(1)

    def _parts(
        self, values: Sequence[Any], variables: Sequence[Any]
    ) -> Iterator[tuple[keras.optimizers.Optimizer, list[Any]]]:
        owners = [self.optimizer_of(variable) for variable in variables]
        for optimizer in self.optimizers:
            yield optimizer, [pair for *pair, owner in zip(values, variables, owners) if owner is optimizer]

    @property
    def variables(self) -> list[Any]:
        return [*self._variables, *(v for optimizer in self.optimizers for v in optimizer.variables)]

    @property
    def learning_rate(self) -> float:
        raise AttributeError('OptimizerByLayer has no learning rate of its own: see its `optimizers`.')

    def save_own_variables(self, store: Any) -> None:
        store['0'] = self.iterations.numpy()  # Keras saves the optimizers besides

    def load_own_variables(self, store: Any) -> None:
        self.iterations.assign(store['0'])

    def get_config(self) -> dict[str, Any]:
        by_layer = {key: keras.optimizers.serialize(optimizer) for key, optimizer in self.by_layer.items()}
        return {'default': keras.optimizers.serialize(self.default), 'by_layer': by_layer, 'name': self.name}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> OptimizerByLayer:
        def optimizer(saved: dict[str, Any]) -> keras.optimizers.Optimizer:
            return keras.optimizers.deserialize(saved, custom_objects)

        by_layer = {key: optimizer(saved) for key, saved in config['by_layer'].items()}
        return cls(optimizer(config['default']), by_layer, config['name'])


def _constant(value: float) -> keras.initializers.Initializer:
    return keras.initializers.Constant(value)
