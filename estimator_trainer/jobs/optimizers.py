"""Keras optimizers that compute what those of tf.compat.v1.train compute."""

import tensorflow as tf

from estimator_trainer.compat.patches.optimizer_parts import Momentum
from estimator_trainer.jobs import schedules
from estimator_trainer.jobs.job_types import KerasOptimizer, Params

__all__ = ['Momentum', 'Rate', 'make']

_legacy = tf.keras.optimizers.legacy
_ADAM_EPSILON = 1e-8  # of tf.compat.v1.train.AdamOptimizer; Keras's is 1e-7


def make(name: str, params: Params) -> KerasOptimizer:
    """Makes an optimizer by its name in `image_classifier.OPTIMIZERS`, with the learning rate of `params`."""
    rate = Rate(params)
    if name == 'adam':
        return _legacy.Adam(rate, epsilon=_ADAM_EPSILON)
    if name == 'momentum':
        return Momentum(rate, momentum=0.9)
    return _legacy.SGD(rate)


class Rate(tf.keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc]  # the class has no types
    """`schedules.learning_rate` as a function of the optimizer's iterations, which are the global step.

    Args:
        params: has those of schedules.SCHEDULE_PARAMS and of the run. Others are ignored.
    """

    _RUN_PARAMS = ('initial_replicas', 'steps_per_epoch', 'max_steps')

    def __init__(self, params: Params) -> None:
        self._params = {
            name: params[name] for name in (*schedules.SCHEDULE_PARAMS, *self._RUN_PARAMS) if name in params
        }

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        return schedules.learning_rate(self._params, step)

    def get_config(self) -> dict[str, Params]:
        return {'params': dict(self._params)}
