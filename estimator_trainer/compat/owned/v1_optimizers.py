"""The update rules of `tf.compat.v1.train` for Keras 3, bit for bit; see `estimator_optimizers`, which gives them too.

A class has the name of the original, and its settings have the names that Keras has for them. GradientDescentOptimizer,
FtrlOptimizer and AdadeltaOptimizer are the same as SGD, Ftrl and Adadelta of `tf.keras.optimizers.legacy`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from optimizer_base import EstimatorOptimizer, Gradient, Rate, Slot, decay_and_add, run_kernel

_register = keras.saving.register_keras_serializable('estimator_optimizers')


@_register
class SGD(EstimatorOptimizer):
    """Gradient descent. With momentum above 0 the slot `momentum` holds the last step of each number."""

    def __init__(
        self, learning_rate: Rate = 0.01, momentum: float = 0.0, nesterov: bool = False, **kwargs: Any
    ) -> None:
        numbers = {'momentum': momentum, 'nesterov': nesterov}
        super().__init__(learning_rate, numbers=numbers, slots={'momentum': 0.0} if momentum > 0 else {}, **kwargs)

    def _sums_rows(self) -> bool:
        return self.momentum > 0  # without momentum each row is subtracted as it comes

    def update(self, variable: Slot, gradient: Gradient, rate: tf.Tensor, momentum: Slot | None = None) -> None:
        if momentum is not None:
            numbers = dict(lr=rate, momentum=self.momentum, use_nesterov=self.nesterov)
            run_kernel('KerasMomentum', gradient, var=variable, accum=momentum, **numbers)
        elif isinstance(gradient, tf.IndexedSlices):
            variable.scatter_add(tf.IndexedSlices(-gradient.values * rate, gradient.indices))
        else:
            tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=rate, delta=gradient)


@_register
class Adadelta(EstimatorOptimizer):
    """Adadelta; `accum_grad` and `accum_var` average the squares of gradients and of updates."""

    def __init__(self, learning_rate: Rate = 0.001, rho: float = 0.95, epsilon: float = 1e-7, **kwargs: Any) -> None:
        slots = {'accum_grad': 0.0, 'accum_var': 0.0}
        super().__init__(learning_rate, numbers={'rho': rho, 'epsilon': epsilon}, slots=slots, **kwargs)

    def update(self, variable: Slot, gradient: Gradient, rate: tf.Tensor, accum_grad: Slot, accum_var: Slot) -> None:
        slots = dict(var=variable, accum=accum_grad, accum_update=accum_var)
        run_kernel('Adadelta', gradient, **slots, lr=rate, rho=self.rho, epsilon=self.epsilon)


@_register
class Ftrl(EstimatorOptimizer):
    """FTRL-proximal with shrinkage; `accumulator` holds the sum of squared gradients, `linear` the linear part."""

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        l2_shrinkage_regularization_strength: float = 0.0,
        beta: float = 0.0,
        **kwargs: Any,
    ) -> None:
        numbers = {
            'learning_rate_power': learning_rate_power,
            'initial_accumulator_value': initial_accumulator_value,
            'l1_regularization_strength': l1_regularization_strength,
            'l2_regularization_strength': l2_regularization_strength,
            'l2_shrinkage_regularization_strength': l2_shrinkage_regularization_strength,
            'beta': beta,
        }
        slots = {'accumulator': initial_accumulator_value, 'linear': 0.0}
        super().__init__(learning_rate, numbers=numbers, slots=slots, **kwargs)

    def update(self, variable: Slot, gradient: Gradient, rate: tf.Tensor, accumulator: Slot, linear: Slot) -> None:
        slots = dict(var=variable, accum=accumulator, linear=linear)
        numbers = dict(
            lr=rate,
            l1=self.l1_regularization_strength,
            l2=self.l2_regularization_strength + self.beta / (2.0 * tf.maximum(rate, 1e-36)),
            lr_power=self.learning_rate_power,
        )
        if self.l2_shrinkage_regularization_strength > 0:
            numbers['l2_shrinkage'] = self.l2_shrinkage_regularization_strength
            run_kernel('FtrlV2', gradient, **slots, **numbers)
        else:
            run_kernel('Ftrl', gradient, **slots, **numbers)


@_register
class MomentumOptimizer(EstimatorOptimizer):
    """Momentum; the slot `momentum` sums decayed gradients, which the learning rate multiplies afterwards."""

    def __init__(self, learning_rate: Rate, momentum: float, nesterov: bool = False, **kwargs: Any) -> None:
        numbers = {'momentum': momentum, 'nesterov': nesterov}
        super().__init__(learning_rate, numbers=numbers, slots={'momentum': 0.0}, **kwargs)

    def update(self, variable: Slot, gradient: Gradient, rate: tf.Tensor, momentum: Slot) -> None:
        numbers = dict(lr=rate, momentum=self.momentum, use_nesterov=self.nesterov)
        run_kernel('Momentum', gradient, var=variable, accum=momentum, **numbers)


@_register
class AdagradOptimizer(EstimatorOptimizer):
    """Adagrad without epsilon; `accumulator` holds the sum of squared gradients."""

    def __init__(self, learning_rate: Rate, initial_accumulator_value: float = 0.1, **kwargs: Any) -> None:
        numbers = {'initial_accumulator_value': initial_accumulator_value}
        super().__init__(learning_rate, numbers=numbers, slots={'accumulator': initial_accumulator_value}, **kwargs)

    def update(self, variable: Slot, gradient: Gradient, rate: tf.Tensor, accumulator: Slot) -> None:
        run_kernel('Adagrad', gradient, var=variable, accum=accumulator, lr=rate)


@_register
class AdagradDAOptimizer(EstimatorOptimizer):
    """Adagrad with dual averaging; the slots sum gradients and squared gradients."""

    def __init__(
        self,
        learning_rate: Rate,
        initial_gradient_squared_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        **kwargs: Any,
    ) -> None:
        start = initial_gradient_squared_accumulator_value
        numbers = {
            'initial_gradient_squared_accumulator_value': start,
            'l1_regularization_strength': l1_regularization_strength,
            'l2_regularization_strength': l2_regularization_strength,
        }
        slots = {'gradient_accumulator': 0.0, 'gradient_squared_accumulator': start}
        super().__init__(learning_rate, numbers=numbers, slots=slots, **kwargs)

    def update(
        self,
        variable: Slot,
        gradient: Gradient,
        rate: tf.Tensor,
        gradient_accumulator: Slot,
        gradient_squared_accumulator: Slot,
    ) -> None:
        run_kernel(
            'AdagradDA',
            gradient,
            var=variable,
            gradient_accumulator=gradient_accumulator,
            gradient_squared_accumulator=gradient_squared_accumulator,
            lr=rate,
            l1=self.l1_regularization_strength,
            l2=self.l2_regularization_strength,
            global_step=self.step(tf.int64),
        )


@_register
class AdamOptimizer(EstimatorOptimizer):
    """Adam; `m` and `v` are the moments.

    `beta_1_power` and `beta_2_power` are multiplied at each step, where `estimator_optimizers.Adam` computes powers;
    the results differ in rounding. A gradient of rows decays the moments of all rows, and moves all of them.
    """

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        **kwargs: Any,
    ) -> None:
        numbers = {'beta_1': beta_1, 'beta_2': beta_2, 'epsilon': epsilon}
        slots, scalars = {'m': 0.0, 'v': 0.0}, {'beta_1_power': beta_1, 'beta_2_power': beta_2}
        super().__init__(learning_rate, numbers=numbers, slots=slots, scalars=scalars, **kwargs)

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        super().apply(grads, trainable_variables)
        self.beta_1_power.assign(self.beta_1_power * self.beta_1)
        self.beta_2_power.assign(self.beta_2_power * self.beta_2)

    def update(self, variable: Slot, gradient: Gradient, rate: tf.Tensor, m: Slot, v: Slot) -> None:
        beta_1, beta_2 = tf.cast(self.beta_1, variable.dtype), tf.cast(self.beta_2, variable.dtype)
        power_1, power_2 = (tf.cast(p, variable.dtype) for p in (self.beta_1_power, self.beta_2_power))
        if not isinstance(gradient, tf.IndexedSlices):
            numbers = dict(beta1_power=power_1, beta2_power=power_2, beta1=beta_1, beta2=beta_2, epsilon=self.epsilon)
            run_kernel('Adam', gradient, var=variable, m=m, v=v, lr=rate, **numbers)
            return
        values, rows = gradient.values, gradient.indices
        decay_and_add(m, beta_1, values, rows)
        decay_and_add(v, beta_2, values * values, rows)
        rate = rate * tf.sqrt(1 - power_2) / (1 - power_1)
        variable.assign_sub(rate * m / (tf.sqrt(v) + self.epsilon))


@_register
class RMSPropOptimizer(EstimatorOptimizer):
    """RMSProp; `rms` averages squared gradients and starts with 1, `mg` averages gradients (centered).

    `momentum` sums the updates. Rows that a gradient lacks stay as they are.
    """

    def __init__(
        self,
        learning_rate: Rate,
        rho: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-10,
        centered: bool = False,
        **kwargs: Any,
    ) -> None:
        numbers = {'rho': rho, 'momentum': momentum, 'epsilon': epsilon, 'centered': centered}
        slots = {'rms': 1.0, **({'mg': 0.0} if centered else {}), 'momentum': 0.0}
        super().__init__(learning_rate, numbers=numbers, slots=slots, **kwargs)

    def update(
        self, variable: Slot, gradient: Gradient, rate: tf.Tensor, rms: Slot, momentum: Slot, mg: Slot | None = None
    ) -> None:
        slots = dict(var=variable, ms=rms, mom=momentum, **({} if mg is None else {'mg': mg}))
        numbers = dict(lr=rate, rho=self.rho, momentum=self.momentum, epsilon=self.epsilon)
        run_kernel('RMSProp' if mg is None else 'CenteredRMSProp', gradient, **slots, **numbers)


@_register
class ProximalAdagradOptimizer(EstimatorOptimizer):
    """Adagrad whose every step ends with L1 and L2 shrinkage; `accumulator` holds the sum of squared gradients."""

    def __init__(
        self,
        learning_rate: Rate,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        **kwargs: Any,
    ) -> None:
        numbers = {
            'initial_accumulator_value': initial_accumulator_value,
            'l1_regularization_strength': l1_regularization_strength,
            'l2_regularization_strength': l2_regularization_strength,
        }
        super().__init__(learning_rate, numbers=numbers, slots={'accumulator': initial_accumulator_value}, **kwargs)

    def update(self, variable: Slot, gradient: Gradient, rate: tf.Tensor, accumulator: Slot) -> None:
        strengths = dict(l1=self.l1_regularization_strength, l2=self.l2_regularization_strength)
        run_kernel('ProximalAdagrad', gradient, var=variable, accum=accumulator, lr=rate, **strengths)


@_register
class ProximalGradientDescentOptimizer(EstimatorOptimizer):
    """Gradient descent whose every step ends with L1 and L2 shrinkage. It has no slots."""

    def __init__(
        self,
        learning_rate: Rate,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        **kwargs: Any,
    ) -> None:
        numbers = {
            'l1_regularization_strength': l1_regularization_strength,
            'l2_regularization_strength': l2_regularization_strength,
        }
        super().__init__(learning_rate, numbers=numbers, **kwargs)

    def update(self, variable: Slot, gradient: Gradient, rate: tf.Tensor) -> None:
        strengths = dict(l1=self.l1_regularization_strength, l2=self.l2_regularization_strength)
        if isinstance(gradient, tf.IndexedSlices):
            run_kernel('ProximalGradientDescent', gradient, var=variable, alpha=rate, **strengths)
        else:
            tf.raw_ops.ResourceApplyProximalGradientDescent(
                var=variable.handle, alpha=rate, delta=gradient, **strengths
            )
