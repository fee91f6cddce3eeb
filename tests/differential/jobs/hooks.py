"""Hooks of the job, that stop, fetch, feed, evaluate and log."""

import tensorflow as tf

from tests.differential.building import dense, job_of
from tests.differential.case import case
from tests.differential.data import RECORD

v1 = tf.compat.v1


@case(single='NanTensorHook', sample=True)
def nan_tensor_hook():
    return job_of(dense, hooks=lambda loss, step: [v1.train.NanTensorHook(loss)])


@case(single='StopAtStepHook', why='hook', sample=True)
def stop_at_step_hook():
    return job_of(dense, hooks=lambda loss, step: [v1.train.StopAtStepHook(last_step=10)])


@case(single='Seen')
def recording_hook():
    class Seen(tf.estimator.SessionRunHook):
        def __init__(self, loss, step):
            self._fetches = [loss, step]

        def before_run(self, run_context):
            return tf.estimator.SessionRunArgs(self._fetches[0])

        def after_run(self, run_context, run_values):
            RECORD.calls.append((int(run_context.session.run(self._fetches[1])), float(run_values.results)))

    return job_of(dense, hooks=lambda loss, step: [Seen(loss, step)])
