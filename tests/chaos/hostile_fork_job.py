"""The job of `job.py`, with helper processes of every kind: `--job=tests.chaos.hostile_fork_job:job`.

`keras_job` is one for the other two loops, where only the input can be slow.
"""

import dataclasses
import time

from tests.chaos import hostile_helpers, hostile_job
from tests.chaos import job as plain


def input_fn(mode, params, input_context):
    import tensorflow as tf

    batches = plain.input_fn(mode, params, input_context)
    if mode != 'train' or params['where'] == 'hook':
        return batches
    helpers = hostile_helpers.Helpers(params['helpers'].split('+'))
    if params['where'] == 'generator':
        answers = tf.data.Dataset.from_generator(
            lambda: _answers(helpers, params['answer_ms'] / 1000), output_signature=tf.TensorSpec([], tf.int64)
        )
    else:
        answers = tf.data.Dataset.range(1 << 40).map(
            lambda number: tf.ensure_shape(tf.numpy_function(helpers.double, [number], tf.int64), [])
        )
    return tf.data.Dataset.zip((answers, batches)).map(_checked).prefetch(8)


def _answers(helpers, secs):
    number = 0
    while True:
        time.sleep(secs)
        yield helpers.double(number)
        number += 1


def _checked(answer, batch):
    """The batch, which needs the answer: without it, it would be dropped from the graph."""
    import tensorflow as tf

    features, labels = batch
    with tf.control_dependencies([tf.debugging.assert_non_negative(answer)]):
        return features, tf.identity(labels)


def model_fn(features, labels, mode, params, config):
    spec = plain.model_fn(features, labels, mode, params, config)
    if mode != 'train' or params['where'] != 'hook':
        return spec
    return spec._replace(training_hooks=(*spec.training_hooks, _hook(params)))


def _hook(params):
    import tensorflow as tf

    class Asks(tf.estimator.SessionRunHook):
        def __init__(self):
            self._helpers, self._number = hostile_helpers.Helpers(params['helpers'].split('+')), 0

        def after_run(self, run_context, run_values):
            self._helpers.double(self._number)
            self._number += 1

    return Asks()


PARAMS = {
    'helpers': '+'.join(hostile_helpers.KINDS),
    'where': 'generator',  # or numpy_function, or hook
    'answer_ms': 0,  # that an answer of the helpers takes longer
}
job = dataclasses.replace(plain.job, input_fn=input_fn, model_fn=model_fn, params={**plain.job.params, **PARAMS})
keras_job = dataclasses.replace(
    hostile_job.job, input_fn=input_fn, model_fn=None, params={**hostile_job.job.params, **PARAMS}
)
