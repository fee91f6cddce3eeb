"""The job of `job.py`, for what a supervisor has to bear: tasks that print without end, and a rate that is scaled.

`--job=tests.chaos.chatty_job:job`. Its optimizer is SGD, whose weights show the learning rate.
"""

import dataclasses

from estimator_trainer.jobs import schedules
from tests.chaos import job as plain

LINE = 'chatter {step} {number} ' + 'x' * 80


def model_fn(features, labels, mode, params, config):
    import tensorflow as tf

    v1 = tf.compat.v1
    spec = plain.model_fn(features, labels, mode, params, config)
    if mode != tf.estimator.ModeKeys.TRAIN:
        return spec
    step = v1.train.get_global_step()
    optimizer = v1.train.GradientDescentOptimizer(schedules.learning_rate(params, step))
    return spec._replace(
        train_op=optimizer.minimize(spec.loss, step), training_hooks=[_chatter(params), *spec.training_hooks]
    )


def _chatter(params):
    import tensorflow as tf

    class Chatter(tf.estimator.SessionRunHook):
        """Prints so many numbered lines after each step."""

        def begin(self):
            self._step = tf.compat.v1.train.get_global_step()

        def after_run(self, run_context, run_values):
            step = int(run_context.session.run(self._step))
            for number in range(params['chatter']):  # one by one: Python's unbuffered stdout (PYTHONUNBUFFERED)
                print(LINE.format(step=step, number=number))  # drops the rest of a long write that a signal cuts

    return Chatter()


job = dataclasses.replace(
    plain.job,
    model_fn=model_fn,
    params={
        **plain.job.params,
        **schedules.SCHEDULE_PARAMS,
        'learning_rate': 0.05,
        'chatter': 0,  # lines after each step
    },
)
