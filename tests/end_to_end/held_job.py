"""The job mnist, held before a step as long as a file is there: `--job=tests.end_to_end.held_job:job`.

Without the environment variable HELD_BY, which names the file, it is that job. HELD_AT is the step whose batch waits.
"""

import dataclasses
import os
import time

import tensorflow as tf  # so that the trainer loads this module, and calls `check`, once TensorFlow is there

from estimator_trainer.jobs import mnist

_held = False


def check(params):
    global _held
    mnist.job.check(params)
    if _held or 'HELD_BY' not in os.environ:
        return
    from estimator_trainer.data import sources

    _held, input_fn, at = True, sources.ImageDataset.input_fn, int(os.environ['HELD_AT'])

    def held(self, mode, params, input_context=None):
        if mode != tf.estimator.ModeKeys.TRAIN:
            return input_fn(self, mode, params, input_context)
        if at == 0:
            _wait()
        pipelines = input_context.num_input_pipelines if input_context else 1
        here = (input_context.num_replicas_in_sync if input_context else 1) // pipelines

        def late(number, batch):
            step = params['start_step'] + number // here + 1
            with tf.control_dependencies([tf.numpy_function(lambda step: _wait(step >= at), [step], tf.bool)]):
                return tf.nest.map_structure(tf.identity, batch)

        batches = input_fn(self, mode, params, input_context)
        return batches.enumerate().map(late)

    sources.ImageDataset.input_fn = held


def _wait(holds=True):
    while holds and os.path.exists(os.environ['HELD_BY']):
        time.sleep(0.02)
    return True


job = dataclasses.replace(mnist.job, check=check)
