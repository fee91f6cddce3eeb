"""The update rules of `tf.compat.v1.train` for Keras 3, bit for bit; see `estimator_optimizers`, which gives them too.

A class has the name of the original, and its settings have the names that Keras has for them. GradientDescentOptimizer
is `estimator_optimizers.SGD`, FtrlOptimizer is `Ftrl` and AdadeltaOptimizer is `Adadelta`.
"""

import keras
import tensorflow as tf
from optimizer_base import EstimatorOptimizer, decay_and_add, run_kernel

_register = keras.saving.register_keras_serializable('estimator_optimizers')


@_register
class MomentumOptimizer(EstimatorOptimizer):
    """Momentum; the slot `momentum` sums decayed gradients, which the learning rate multiplies afterwards."""

    def __init__(self, learning_rate, momentum, nesterov=False, **kwargs):
        numbers = {'momentum': momentum, 'nesterov': nesterov}
        super().__init__(learning_rate, numbers=numbers, slots={'momentum': 0.0}, **kwargs)

    def update(self, variable, gradient, rate, momentum):
        numbers = dict(lr=rate, momentum=self.momentum, use_nesterov=self.nesterov)
        run_kernel('Momentum', gradient, var=variable, accum=momentum, **numbers)


@_register
class AdagradOptimizer(EstimatorOptimizer):
    """Adagrad without epsilon; `accumulator` holds the sum of squared gradients."""

    def __init__(self, learning_rate, initial_accumulator_value=0.1, **kwargs):
        numbers = {'initial_accumulator_value': initial_accumulator_value}
        super().__init__(learning_rate, numbers=numbers, slots={'accumulator': initial_accumulator_value}, **kwargs)

    def update(self, variable, gradient, rate, accumulator):
        run_kernel('Adagrad', gradient, var=variable, accum=accumulator, lr=rate)


@_register
class AdagradDAOptimizer(EstimatorOptimizer):
    """Adagrad with dual averaging; the slots sum gradients and squared gradients."""

    def __init__(
        self,
        learning_rate,
        initial_gradient_squared_accumulator_value=0.1,
        l1_regularization_strength=0.0,
        l2_regularization_strength=0.0,
        **kwargs,
    ):
        start = initial_gradient_squared_accumulator_value
        numbers = {
            'initial_gradient_squared_accumulator_value': start,
            'l1_regularization_strength': l1_regularization_strength,
            'l2_regularization_strength': l2_regularization_strength,
        }
        slots = {'gradient_accumulator': 0.0, 'gradient_squared_accumulator': start}
        super().__init__(learning_rate, numbers=numbers, slots=slots, **kwargs)

    def update(self, variable, gradient, rate, gradient_accumulator, gradient_squared_accumulator):
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

    def __init__(self, learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-8, **kwargs):
        numbers = {'beta_1': beta_1, 'beta_2': beta_2, 'epsilon': epsilon}
        slots, scalars = {'m': 0.0, 'v': 0.0}, {'beta_1_power': beta_1, 'beta_2_power': beta_2}
        super().__init__(learning_rate, numbers=numbers, slots=slots, scalars=scalars, **kwargs)

    def apply(self, grads, trainable_variables=None):
        super().apply(grads, trainable_variables)
        self.beta_1_power.assign(self.beta_1_power * self.beta_1)
        self.beta_2_power.assign(self.beta_2_power * self.beta_2)

    def update(self, variable, gradient, rate, m, v):
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

    def __init__(self, learning_rate, rho=0.9, momentum=0.0, epsilon=1e-10, centered=False, **kwargs):
        numbers = {'rho': rho, 'momentum': momentum, 'epsilon': epsilon, 'centered': centered}
        slots = {'rms': 1.0, **({'mg': 0.0} if centered else {}), 'momentum': 0.0}
        super().__init__(learning_rate, numbers=numbers, slots=slots, **kwargs)

    def update(self, variable, gradient, rate, rms, momentum, mg=None):
        slots = dict(var=variable, ms=rms, mom=momentum, **({} if mg is None else {'mg': mg}))
        numbers = dict(lr=rate, rho=self.rho, momentum=self.momentum, epsilon=self.epsilon)
        run_kernel('RMSProp' if mg is None else 'CenteredRMSProp', gradient, **slots, **numbers)


@_register
class ProximalAdagradOptimizer(EstimatorOptimizer):
    """Adagrad whose every step ends with L1 and L2 shrinkage; `accumulator` holds the sum of squared gradients."""

    def __init__(
        self,
        learning_rate,
        initial_accumulator_value=0.1,
        l1_regularization_strength=0.0,
        l2_regularization_strength=0.0,
        **kwargs,
    ):
        numbers = {
            'initial_accumulator_value': initial_accumulator_value,
            'l1_regularization_strength': l1_regularization_strength,
            'l2_regularization_strength': l2_regularization_strength,
        }
        super().__init__(learning_rate, numbers=numbers, slots={'accumulator': initial_accumulator_value}, **kwargs)

    def update(self, variable, gradient, rate, accumulator):
        strengths = dict(l1=self.l1_regularization_strength, l2=self.l2_regularization_strength)
        run_kernel('ProximalAdagrad', gradient, var=variable, accum=accumulator, lr=rate, **strengths)


@_register
class ProximalGradientDescentOptimizer(EstimatorOptimizer):
    """Gradient descent whose every step ends with L1 and L2 shrinkage. It has no slots."""

    def __init__(self, learning_rate, l1_regularization_strength=0.0, l2_regularization_strength=0.0, **kwargs):
        numbers = {
            'l1_regularization_strength': l1_regularization_strength,
            'l2_regularization_strength': l2_regularization_strength,
        }
        super().__init__(learning_rate, numbers=numbers, **kwargs)

    def update(self, variable, gradient, rate):
        strengths = dict(l1=self.l1_regularization_strength, l2=self.l2_regularization_strength)
        if isinstance(gradient, tf.IndexedSlices):
            run_kernel('ProximalGradientDescent', gradient, var=variable, alpha=rate, **strengths)
        else:
            tf.raw_ops.ResourceApplyProximalGradientDescent(
                var=variable.handle, alpha=rate, delta=gradient, **strengths
            )
