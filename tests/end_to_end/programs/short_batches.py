"""The built-in jobs on data that come to an end: the last batch is short, in one replica more than in another."""

import dataclasses

import tensorflow as tf

from estimator_trainer.data import sources
from estimator_trainer.jobs import fashion_mnist as fashion
from estimator_trainer.jobs import mnist as digits

GLOBAL_BATCH = 64
STEPS = 20
EXAMPLES = (STEPS - 1) * GLOBAL_BATCH + 44  # the last step: 44 in one process; 32 and 12 in two replicas


def input_fn(mode, params, input_context=None):
    dataset = sources.load('mnist_5k')
    batches = dataset.input_fn(mode, params, input_context)
    if mode != tf.estimator.ModeKeys.TRAIN:
        return batches
    size, start_step = params['batch_size'], params['start_step']
    accumulated = GLOBAL_BATCH // params['global_batch_size']  # batches of a step, each of which counts as one here
    pipelines = input_context.num_input_pipelines if input_context else 1
    pipeline = input_context.input_pipeline_id if input_context else 0
    here = (input_context.num_replicas_in_sync if input_context else 1) // pipelines

    def cut(element, batch):
        first = (start_step + element // here) * params['global_batch_size'] + (pipeline * here + element % here) * size
        left = tf.clip_by_value(EXAMPLES - first, 0, size)
        return tf.nest.map_structure(lambda tensor: tensor[:left], batch)

    return batches.enumerate().map(cut).take((STEPS * accumulated - start_step) * here)


mnist, fashion_mnist = (
    dataclasses.replace(job, model_fn=None, input_fn=input_fn, num_train_examples=EXAMPLES)
    for job in (digits.job, fashion.job)
)
