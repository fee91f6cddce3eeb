"""Keras optimizers that compute what those of tf.compat.v1.train compute."""

import tensorflow as tf

from estimator_trainer.jobs import schedules

_legacy = tf.keras.optimizers.legacy
_ADAM_EPSILON = 1e-8  # of tf.compat.v1.train.AdamOptimizer; Keras's is 1e-7


def make(name: str, params):
    """An optimizer by its name in `image_classifier.OPTIMIZERS`, with the rate of `params`."""
    rate = Rate(params)
    if name == 'adam':
        return _legacy.Adam(rate, epsilon=_ADAM_EPSILON)
    if name == 'momentum':
        return Momentum(rate, momentum=0.9)
    return _legacy.SGD(rate)


class Rate(tf.keras.optimizers.schedules.LearningRateSchedule):
    """`schedules.learning_rate` as a function of the optimizer's iterations, the global step.

    Args:
        params: schedules.SCHEDULE_PARAMS and the run's; others are ignored.
    """

    _RUN_PARAMS = ('initial_replicas', 'steps_per_epoch', 'max_steps')

    def __init__(self, params):
        self._params = {
            name: params[name] for name in (*schedules.SCHEDULE_PARAMS, *self._RUN_PARAMS) if name in params
        }

    def __call__(self, step):
        return schedules.learning_rate(self._params, step)

    def get_config(self):
        return {'params': dict(self._params)}


class Momentum(_legacy.Optimizer):
    """tf.compat.v1.train.MomentumOptimizer: the velocity sums gradients, and the rate multiplies it.

    Keras's SGD sums gradients times rate: with a rate that changes this is another computation.
    Slot: 'momentum'.
    """

    _HAS_AGGREGATE_GRAD = True

    def __init__(self, learning_rate=0.01, momentum=0.9, name='Momentum', **kwargs):
        super().__init__(name, **kwargs)
        self._set_hyper('learning_rate', kwargs.get('lr', learning_rate))
        self._set_hyper('momentum', momentum)

    def _create_slots(self, var_list):
        for variable in var_list:
            self.add_slot(variable, 'momentum')

    def _prepare_local(self, var_device, var_dtype, apply_state):
        super()._prepare_local(var_device, var_dtype, apply_state)
        apply_state[(var_device, var_dtype)]['momentum'] = tf.identity(self._get_hyper('momentum', var_dtype))

    def _resource_apply_dense(self, grad, var, apply_state=None):
        now = self._now(var, apply_state)
        return tf.raw_ops.ResourceApplyMomentum(
            var=var.handle,
            accum=self.get_slot(var, 'momentum').handle,
            lr=now['lr_t'],
            grad=grad,
            momentum=now['momentum'],
            use_locking=self._use_locking,
        )

    def _resource_apply_sparse(self, grad, var, indices, apply_state=None):
        now = self._now(var, apply_state)
        return tf.raw_ops.ResourceSparseApplyMomentum(
            var=var.handle,
            accum=self.get_slot(var, 'momentum').handle,
            lr=now['lr_t'],
            grad=grad,
            indices=indices,
            momentum=now['momentum'],
            use_locking=self._use_locking,
        )

    def _now(self, var, apply_state):
        key = var.device, var.dtype.base_dtype
        return (apply_state or {}).get(key) or self._fallback_apply_state(*key)

    def get_config(self):
        return {
            **super().get_config(),
            'learning_rate': self._serialize_hyperparameter('learning_rate'),
            'momentum': self._serialize_hyperparameter('momentum'),
        }
