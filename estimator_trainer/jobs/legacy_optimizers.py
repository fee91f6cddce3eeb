"""Turns legacy optimizers of Keras 2 into those of tf.compat.v1.train, whose slots are in Estimator's checkpoints."""

import tensorflow as tf

from estimator_trainer.compat.patches import optimizer_parts
from estimator_trainer.jobs.job_types import KerasOptimizer


def equivalent(optimizer: KerasOptimizer, step: tf.Tensor) -> tuple['tf.compat.v1.train.Optimizer', tf.Tensor]:
    """Makes the optimizer of tf.compat.v1.train that computes the same.

    Args:
        optimizer: one of tf.keras.optimizers.legacy, or jobs.optimizers.Momentum. It is not changed.
        step: the global step.

    Returns:
        The optimizer, and its learning rate at this step.

    Raises:
        ValueError: there is no such optimizer.
    """
    from estimator_trainer.jobs import optimizers

    legacy, v1 = tf.keras.optimizers.legacy, tf.compat.v1.train
    hyper = optimizer_parts.settings(optimizer)  # to read its attributes would make variables
    rate = hyper['learning_rate']
    rate = rate(step) if callable(rate) else tf.convert_to_tensor(rate, tf.float32)
    kind: type | None = type(optimizer)
    if optimizer.clipnorm or optimizer.clipvalue or optimizer.global_clipnorm or optimizer_parts.decay(optimizer):
        kind = None
    if kind is legacy.Adam and not optimizer.amsgrad:
        return v1.AdamOptimizer(rate, hyper['beta_1'], hyper['beta_2'], optimizer.epsilon), rate
    if kind is optimizers.Momentum:
        return v1.MomentumOptimizer(rate, hyper['momentum']), rate
    if kind is legacy.SGD and not optimizer_parts.has_momentum(optimizer):
        return v1.GradientDescentOptimizer(rate), rate
    raise ValueError(
        f'make_optimizer gives {optimizer.get_config()}, for which tf.compat.v1.train has no equal: give '
        'the job a model_fn of its own, or use tf.keras.optimizers.legacy.Adam or SGD, without clipping '
        'and decay, or estimator_trainer.jobs.optimizers.Momentum.'
    )
