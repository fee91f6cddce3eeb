"""Learning-rate schedules: the rate as a function of the global step, for each value of the param `schedule`."""

import math
from typing import TYPE_CHECKING, Any

from estimator_trainer.jobs.job_types import Params

if TYPE_CHECKING:
    import tensorflow as tf

SCHEDULE_PARAMS: dict[str, Any] = {
    'learning_rate': 0.01,
    'schedule': 'constant',  # constant, step or cosine
    'decay_epochs': '3,7',  # step: the rate falls by decay_factor at each of these epochs
    'decay_factor': 0.1,
    'warmup_steps': 0,  # the rate rises linearly from 0 over these many steps, then the schedule
    'scale_rate_with_replicas': False,  # linear scaling rule, Goyal et al. 2017, arXiv:1706.02677
}


KINDS = ('constant', 'step', 'cosine')


def check(params: Params) -> None:
    """Refuses params that describe no schedule.

    Raises:
        ValueError: the message names the param, its value and the possible values.
    """
    if params['schedule'] not in KINDS:
        raise ValueError(f'--param=schedule={params["schedule"]}: use one of {", ".join(KINDS)}.')
    if params['schedule'] == 'step':
        _decay_epochs(params)
    if params['learning_rate'] < 0:
        raise ValueError(f'--param=learning_rate={params["learning_rate"]}: give 0 or more.')
    if params['warmup_steps'] < 0:
        raise ValueError(f'--param=warmup_steps={params["warmup_steps"]}: give 0 or more steps.')


def learning_rate(params: Params, global_step: 'tf.Tensor | int') -> 'tf.Tensor':
    """The learning rate at `global_step`, a scalar float32 tensor. `check` has accepted the params."""
    import tensorflow as tf

    step = tf.cast(global_step, tf.float32)
    peak = params['learning_rate']
    if params['scale_rate_with_replicas']:
        peak *= params['initial_replicas']  # not by today's number, which shares the same global batch
    rate = tf.constant(peak, tf.float32)
    if params['schedule'] == 'step':
        for epoch in _decay_epochs(params):
            boundary = round(epoch * params['steps_per_epoch'])
            rate *= tf.where(step >= boundary, params['decay_factor'], 1.0)
    elif params['schedule'] == 'cosine':
        warmup = params['warmup_steps']
        done = (step - warmup) / max(1, params['max_steps'] - warmup)
        rate *= 0.5 * (1.0 + tf.cos(math.pi * tf.clip_by_value(done, 0.0, 1.0)))
    if params['warmup_steps']:
        rate *= tf.minimum(1.0, (step + 1.0) / params['warmup_steps'])
    return rate


def _decay_epochs(params: Params) -> list[float]:
    text: str = params['decay_epochs']
    try:
        epochs = [float(epoch) for epoch in text.split(',')]
    except ValueError:
        epochs = []
    if not epochs or epochs != sorted(epochs) or not all(0 <= epoch < math.inf for epoch in epochs):
        raise ValueError(f'--param=decay_epochs={text}: give ascending numbers, such as 3,7.')
    return epochs
