"""Optimizers of Estimators for Keras 3, which update as the Estimators did, bit for bit.

A migrated model continues with the slots of the Estimator's checkpoint, so its next steps are the Estimator's. Import
this module before you open such a model. If you do not need that, compile the model with an optimizer of Keras: the
rules of `keras.optimizers` have the same names and differ in details (what happens to rows of a table that a gradient
lacks, where epsilon is added, how numbers are rounded).

The classes below repeat `tf.keras.optimizers.legacy`. `v1_optimizers` has those of `tf.compat.v1.train`, and SGD, Ftrl
and Adadelta, which are the same in both; this module gives them as well. All take clipnorm, clipvalue and
global_clipnorm.

Needs TensorFlow and Keras 3.5 or later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from optimizer_base import (
    EstimatorOptimizer,
    Gradient,
    OptimizerByLayer,
    Rate,
    Slot,
    TracedSchedule,
    decay_and_add,
    run_kernel,
)
from v1_optimizers import (
    SGD,
    Adadelta,
    AdagradDAOptimizer,
    AdagradOptimizer,
    AdamOptimizer,
    Ftrl,
    MomentumOptimizer,
    ProximalAdagradOptimizer,
    ProximalGradientDescentOptimizer,
    RMSPropOptimizer,
)

__all__ = [
    'SGD',
    'Adadelta',
    'Adagrad',
    'AdagradDAOptimizer',
    'AdagradOptimizer',
    'Adam',
    'AdamOptimizer',
    'Adamax',
    'Ftrl',
    'MomentumOptimizer',
    'Nadam',
    'OptimizerByLayer',
    'ProximalAdagradOptimizer',
    'ProximalGradientDescentOptimizer',
    'RMSPropOptimizer',
    'RMSprop',
    'TracedSchedule',
]

_register = keras.saving.register_keras_serializable('estimator_optimizers')


@_register
class Adagrad(EstimatorOptimizer):
    """Adagrad; `accumulator` holds the sum of squared gradients. Rows that a gradient lacks stay as they are."""

    def __init__(
        self, learning_rate: Rate = 0.001, initial_accumulator_value: float = 0.1, epsilon: float = 1e-7, **kwargs: Any
    ) -> None:
        numbers = {'initial_accumulator_value': initial_accumulator_value, 'epsilon': epsilon}
        super().__init__(learning_rate, numbers=numbers, slots={'accumulator': initial_accumulator_value}, **kwargs)

    def update(self, variable: Slot, gradient: Gradient, rate: tf.Tensor, accumulator: Slot) -> None:
        run_kernel('AdagradV2', gradient, var=variable, accum=accumulator, lr=rate, epsilon=self.epsilon)


@_register
class Adam(EstimatorOptimizer):
    """Adam; `m` and `v` are the moments, `vhat` the greatest `v` so far (amsgrad).

    A gradient of rows decays the moments of all rows, and moves all of them.
    """

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        **kwargs: Any,
    ) -> None:
        numbers = {'beta_1': beta_1, 'beta_2': beta_2, 'epsilon': epsilon, 'amsgrad': amsgrad}
        slots = {'m': 0.0, 'v': 0.0, **({'vhat': 0.0} if amsgrad else {})}
        super().__init__(learning_rate, numbers=numbers, slots=slots, **kwargs)

    def update(
        self, variable: Slot, gradient: Gradient, rate: tf.Tensor, m: Slot, v: Slot, vhat: Slot | None = None
    ) -> None:
        beta_1, beta_2 = tf.cast(self.beta_1, variable.dtype), tf.cast(self.beta_2, variable.dtype)
        power_1 = tf.pow(beta_1, self.step(variable.dtype))
        power_2 = tf.pow(beta_2, self.step(variable.dtype))
        if not isinstance(gradient, tf.IndexedSlices):
            slots = dict(var=variable, m=m, v=v, **({} if vhat is None else {'vhat': vhat}))
            numbers = dict(beta1_power=power_1, beta2_power=power_2, beta1=beta_1, beta2=beta_2, epsilon=self.epsilon)
            run_kernel('Adam' if vhat is None else 'AdamWithAmsgrad', gradient, lr=rate, **slots, **numbers)
            return
        values, rows = gradient.values, gradient.indices
        decay_and_add(m, beta_1, values, rows)
        decay_and_add(v, beta_2, tf.square(values), rows)
        if vhat is not None:
            vhat.assign(tf.maximum(vhat, v))
            v = vhat
        rate *= tf.sqrt(1 - power_2) / (1 - power_1)
        variable.assign_sub(rate * m / (tf.sqrt(v) + self.epsilon))


@_register
class Adamax(EstimatorOptimizer):
    """Adamax; `m` is the first moment, `v` the decayed greatest gradient. Rows that a gradient lacks stay as they
    are."""

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        **kwargs: Any,
    ) -> None:
        numbers = {'beta_1': beta_1, 'beta_2': beta_2, 'epsilon': epsilon}
        super().__init__(learning_rate, numbers=numbers, slots={'m': 0.0, 'v': 0.0}, **kwargs)

    def update(self, variable: Slot, gradient: Gradient, rate: tf.Tensor, m: Slot, v: Slot) -> None:
        beta_1, beta_2 = tf.cast(self.beta_1, variable.dtype), tf.cast(self.beta_2, variable.dtype)
        power = tf.pow(beta_1, self.step(variable.dtype))
        if not isinstance(gradient, tf.IndexedSlices):
            numbers = dict(beta1_power=power, lr=rate, beta1=beta_1, beta2=beta_2, epsilon=self.epsilon)
            run_kernel('AdaMax', gradient, var=variable, m=m, v=v, **numbers)
            return
        values, rows = gradient.values, gradient.indices
        new_m = tf.gather(m, rows) * beta_1 + values * (1 - beta_1)
        m.scatter_update(tf.IndexedSlices(new_m, rows))
        new_v = tf.maximum(tf.gather(v, rows) * beta_2, tf.abs(values))
        v.scatter_update(tf.IndexedSlices(new_v, rows))
        variable.scatter_add(tf.IndexedSlices(-rate / (1 - power) * (new_m / (new_v + self.epsilon)), rows))


@_register
class Nadam(EstimatorOptimizer):
    """Adam with Nesterov's momentum; `m` and `v` are the moments.

    `momentum_cache` is the product of the momentums of all steps so far. A gradient of rows decays the moments of all
    rows, and moves only its own.
    """

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        schedule_decay: float = 0.004,
        **kwargs: Any,
    ) -> None:
        numbers = {'beta_1': beta_1, 'beta_2': beta_2, 'epsilon': epsilon, 'schedule_decay': schedule_decay}
        slots, scalars = {'m': 0.0, 'v': 0.0}, {'momentum_cache': 1.0}
        super().__init__(learning_rate, numbers=numbers, slots=slots, scalars=scalars, **kwargs)

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        super().apply(grads, trainable_variables)
        # `iterations` has been counted up already.
        self.momentum_cache.assign(self.momentum_cache * self._momentum(tf.cast(self.iterations, tf.float32)))

    def _momentum(self, step: tf.Tensor) -> tf.Tensor:
        base = tf.cast(0.96, step.dtype)
        return tf.cast(self.beta_1, step.dtype) * (1.0 - 0.5 * tf.pow(base, self.schedule_decay * step))

    def update(self, variable: Slot, gradient: Gradient, rate: tf.Tensor, m: Slot, v: Slot) -> None:
        beta_1, beta_2 = tf.cast(self.beta_1, variable.dtype), tf.cast(self.beta_2, variable.dtype)
        step = self.step(variable.dtype)
        now, next = self._momentum(step), self._momentum(step + 1)
        product = tf.cast(self.momentum_cache, variable.dtype) * now
        unbiased_v = 1.0 - tf.pow(beta_2, step)
        if not isinstance(gradient, tf.IndexedSlices):
            m.assign(beta_1 * m + (1 - beta_1) * gradient)
            v.assign(beta_2 * v + (1 - beta_2) * tf.square(gradient))
            average = (1.0 - now) * (gradient / (1.0 - product)) + next * (m / (1.0 - product * next))
            variable.assign(variable - rate * average / (tf.sqrt(v / unbiased_v) + self.epsilon))
            return
        values, rows = gradient.values, gradient.indices
        decay_and_add(m, beta_1, values, rows)
        decay_and_add(v, beta_2, tf.square(values), rows)
        average = (1.0 - now) * (values / (1.0 - product)) + next * (tf.gather(m, rows) / (1.0 - product * next))
        update = -rate * average / (tf.sqrt(tf.gather(v, rows) / unbiased_v) + self.epsilon)
        variable.scatter_add(tf.IndexedSlices(update, rows))


@_register
class RMSprop(EstimatorOptimizer):
    """RMSprop; `rms` averages squared gradients, `mg` gradients (centered), `momentum` the updates.

    Without momentum a gradient of rows decays `rms` and `mg` of all rows, and moves only its own. With momentum, rows
    that it lacks stay as they are.
    """

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        rho: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-7,
        centered: bool = False,
        **kwargs: Any,
    ) -> None:
        numbers = {'rho': rho, 'momentum': momentum, 'epsilon': epsilon, 'centered': centered}
        names = ['rms', *(['momentum'] if momentum > 0 else []), *(['mg'] if centered else [])]
        super().__init__(learning_rate, numbers=numbers, slots=dict.fromkeys(names, 0.0), **kwargs)

    def update(
        self,
        variable: Slot,
        gradient: Gradient,
        rate: tf.Tensor,
        rms: Slot,
        momentum: Slot | None = None,
        mg: Slot | None = None,
    ) -> None:
        rho = tf.cast(self.rho, variable.dtype)
        if momentum is not None:
            slots = dict(var=variable, ms=rms, mom=momentum, **({} if mg is None else {'mg': mg}))
            numbers = dict(lr=rate, rho=rho, momentum=self.momentum, epsilon=self.epsilon)
            run_kernel('RMSProp' if mg is None else 'CenteredRMSProp', gradient, **slots, **numbers)
            return
        if not isinstance(gradient, tf.IndexedSlices):
            rms.assign(rho * rms + (1.0 - rho) * tf.square(gradient))
            mean_square = rms
            if mg is not None:
                mg.assign(rho * mg + (1.0 - rho) * gradient)
                mean_square = rms - tf.square(mg)
            variable.assign(variable - rate * gradient / (tf.sqrt(mean_square) + self.epsilon))
            return
        values, rows = gradient.values, gradient.indices
        decay_and_add(rms, rho, tf.square(values), rows)
        mean_square = tf.gather(rms, rows)
        if mg is not None:
            decay_and_add(mg, rho, values, rows)
            mean_square -= tf.square(tf.gather(mg, rows))
        update = -rate * values / (tf.sqrt(mean_square) + self.epsilon)
        variable.scatter_add(tf.IndexedSlices(update, rows))
