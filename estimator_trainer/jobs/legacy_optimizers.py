"""Turns Keras 2's legacy optimizers into those of tf.compat.v1.train, whose slots Estimator's checkpoints hold."""

import tensorflow as tf

from estimator_trainer.compat.patches import optimizer_settings


def of(optimizer, step):
    """The tf.compat.v1.train optimizer that computes the same.

    Args:
        optimizer: of tf.keras.optimizers.legacy, or jobs.optimizers.Momentum. It is only looked at.
        step: the global step, at which a schedule is asked for the rate.

    Returns:
        (optimizer, the rate at this step)

    Raises:
        ValueError: there is none.
    """
    from estimator_trainer.jobs import optimizers

    legacy, v1 = tf.keras.optimizers.legacy, tf.compat.v1.train
    hyper = optimizer_settings.settings(optimizer)  # its attributes would make variables of them
    rate = hyper['learning_rate']
    rate = rate(step) if callable(rate) else tf.convert_to_tensor(rate, tf.float32)
    kind = type(optimizer)
    if optimizer.clipnorm or optimizer.clipvalue or optimizer.global_clipnorm or optimizer_settings.decay(optimizer):
        kind = None
    if kind is legacy.Adam and not optimizer.amsgrad:
        return v1.AdamOptimizer(rate, hyper['beta_1'], hyper['beta_2'], optimizer.epsilon), rate
    if kind is optimizers.Momentum:
        return v1.MomentumOptimizer(rate, hyper['momentum']), rate
    if kind is legacy.SGD and not optimizer_settings.has_momentum(optimizer):
        return v1.GradientDescentOptimizer(rate), rate
    raise ValueError(
        f'make_optimizer gives {optimizer.get_config()}, for which tf.compat.v1.train has no equal: give '
        'the job a model_fn of its own, or use tf.keras.optimizers.legacy.Adam or SGD, without clipping '
        'and decay, or estimator_trainer.jobs.optimizers.Momentum.'
    )
