"""Keras optimizers that compute what those of tf.compat.v1.train compute."""

import tensorflow as tf

from estimator_trainer.compat.patches import optimizer_parts
from estimator_trainer.compat.patches.optimizer_parts import Momentum
from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import schedules
from estimator_trainer.jobs.job import KerasParts
from estimator_trainer.jobs.job_types import KerasOptimizer, Params

__all__ = ['Momentum', 'Rate', 'make', 'of_estimator', 'of_job', 'rate_at']

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


def of_job(parts: KerasParts, params: Params) -> KerasOptimizer:
    """Makes the optimizer of a job.

    Raises:
        UsageError: it is none of tf.keras.optimizers.legacy, or scales the loss itself.
    """
    optimizer = parts.make_optimizer(params)
    if isinstance(optimizer, tf.keras.mixed_precision.LossScaleOptimizer):
        raise UsageError(
            'make_optimizer gives a LossScaleOptimizer; let it give the optimizer inside of that. With '
            '--mixed_precision=float16 keras_fit and custom_loop scale the loss themselves; bfloat16 needs no scale.'
        )
    if not isinstance(optimizer, _legacy.Optimizer):
        kind = type(optimizer)
        raise UsageError(
            f'make_optimizer gives a {kind.__module__}.{kind.__qualname__}, and one of tf.keras.optimizers.legacy is '
            'needed, such as tf.keras.optimizers.legacy.Adam(1e-3).'
        )
    return optimizer


def rate_at(optimizer: KerasOptimizer, step: tf.Tensor) -> tf.Tensor:
    """The learning rate of one of tf.keras.optimizers.legacy after so many steps, without its `decay`: a scalar."""
    rate = optimizer_parts.settings(optimizer)['learning_rate']
    if isinstance(rate, tf.keras.optimizers.schedules.LearningRateSchedule):
        return rate(step)
    return tf.convert_to_tensor(rate() if callable(rate) else rate, tf.float32)


def of_estimator(optimizer: KerasOptimizer, step: tf.Tensor) -> tuple['tf.compat.v1.train.Optimizer', tf.Tensor]:
    """Makes the optimizer of tf.compat.v1.train that computes the same. Its slots are in Estimator's checkpoints.

    Args:
        optimizer: one of tf.keras.optimizers.legacy, or Momentum. It is not changed.
        step: the global step.

    Returns:
        The optimizer, and its learning rate at this step.

    Raises:
        ValueError: there is no such optimizer.
    """
    v1 = tf.compat.v1.train
    hyper = optimizer_parts.settings(optimizer)  # to read its attributes would make variables
    rate = rate_at(optimizer, step)
    kind: type | None = type(optimizer)
    clips = optimizer.clipnorm or optimizer.clipvalue or optimizer.global_clipnorm
    if clips or optimizer_parts.decay(optimizer) or optimizer_parts.changes_gradients(optimizer):
        kind = None
    if kind is _legacy.Adam and not optimizer.amsgrad:
        return v1.AdamOptimizer(rate, hyper['beta_1'], hyper['beta_2'], optimizer.epsilon), rate
    if kind is Momentum:
        return v1.MomentumOptimizer(rate, hyper['momentum']), rate
    if kind is _legacy.SGD and not optimizer_parts.has_momentum(optimizer):
        return v1.GradientDescentOptimizer(rate), rate
    raise ValueError(
        f'make_optimizer gives {optimizer.get_config()}, for which tf.compat.v1.train has no equal: give '
        'the job a model_fn of its own, or use tf.keras.optimizers.legacy.Adam or SGD, without clipping, '
        'decay and functions that change gradients, or estimator_trainer.jobs.optimizers.Momentum.'
    )


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
