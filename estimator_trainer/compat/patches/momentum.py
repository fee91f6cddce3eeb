"""An optimizer of tf.keras.optimizers.legacy that computes what tf.compat.v1.train.MomentumOptimizer computes.

Touches: what tf.keras.optimizers.legacy.Optimizer has for its subclasses: _set_hyper, _prepare_local and others
Without it: --optimizer=momentum would train other weights in Keras's loops than in an Estimator
For: the trainer
"""

import tensorflow as tf


class Momentum(tf.keras.optimizers.legacy.Optimizer):
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
        return self._apply(tf.raw_ops.ResourceApplyMomentum, var, apply_state, grad=grad)

    def _resource_apply_sparse(self, grad, var, indices, apply_state=None):
        return self._apply(tf.raw_ops.ResourceSparseApplyMomentum, var, apply_state, grad=grad, indices=indices)

    def _apply(self, kernel, var, apply_state, **gradient):
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

    def get_config(self):
        return {
            **super().get_config(),
            'learning_rate': self._serialize_hyperparameter('learning_rate'),
            'momentum': self._serialize_hyperparameter('momentum'),
        }
