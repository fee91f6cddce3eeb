"""Jobs whose process ends in the middle: the same command trains what an uninterrupted run trains."""

import sys

import launch
import pytest

pytestmark = pytest.mark.slow

# The weight is the sum of the numbers that were trained, from 0 on.
SUM_JOB = """
import os

import tensorflow as tf

from estimator_trainer.jobs import Job

v1 = tf.compat.v1


def input_fn(mode, params):
    start = params['start_step'] if mode == 'train' else 0
    numbers = tf.data.Dataset.range(start, 1000 if mode == 'train' else 4).batch(1)
    return numbers.map(lambda number: (tf.cast(number, tf.float32), tf.cast(number, tf.float32)))


class TellsAStore(tf.estimator.SessionRunHook):
    steps = 0

    def after_run(self, run_context, run_values):
        self.steps += 1
        if self.steps == 14 and os.environ.get('STORE') == 'away':
            raise tf.errors.AbortedError(None, None, 'All 10 retry attempts failed. The last failure: HTTP 503')


def model_fn(features, labels, mode, params):
    weight = v1.get_variable('weight', [], initializer=v1.zeros_initializer())
    loss = -weight * tf.reduce_mean(features)
    train_op = None
    if mode == 'train':
        train_op = v1.train.GradientDescentOptimizer(1.0).minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[TellsAStore()])


job = Job(model_fn=model_fn, input_fn=input_fn, num_train_examples=20)
"""


# As a GAN that trains its discriminator on two more batches for each step, by a hook.
GAN_JOB = """
import os

import tensorflow as tf

from estimator_trainer.jobs import Job

v1 = tf.compat.v1


def input_fn(mode, params):
    start = params['start_step'] * params['batch_size'] + params['position_shift'] if mode == 'train' else 0
    numbers = tf.data.Dataset.range(start, 1000 if mode == 'train' else 4).batch(params['batch_size'])
    return numbers.map(lambda number: (tf.cast(number, tf.float32), tf.cast(number, tf.float32)))


class RunsTwice(tf.estimator.SessionRunHook):
    steps = 0

    def __init__(self, op):
        self.op = op

    def before_run(self, run_context):
        for _ in range(2):
            run_context.session.run(self.op)

    def after_run(self, run_context, run_values):
        self.steps += 1
        if self.steps == 10 and os.environ.get('STOPS'):
            run_context.request_stop()


def model_fn(features, labels, mode, params):
    first = v1.get_variable('first', [], initializer=v1.zeros_initializer())
    second = v1.get_variable('second', [], initializer=v1.zeros_initializer())
    loss = second * 0.001
    if mode != 'train':
        return tf.estimator.EstimatorSpec(mode, loss=loss)
    train_first = first.assign_add(tf.reduce_sum(features))
    train_second = second.assign_add(tf.reduce_sum(features))
    train_op = tf.group(train_second, v1.train.get_global_step().assign_add(1))
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[RunsTwice(train_first.op)])


job = Job(model_fn=model_fn, input_fn=input_fn, num_train_examples=120)
"""


# Its input_fn takes no input_context. The weight is the sum of the numbers that were trained.
ALONE_JOB = """
import numpy as np
import tensorflow as tf

from estimator_trainer.data import array_batches
from estimator_trainer.jobs import Job

v1 = tf.compat.v1


def input_fn(mode, params):
    numbers = np.arange(160.0, dtype=np.float32)
    return array_batches({'number': numbers}, numbers, mode, params)


def model_fn(features, labels, mode, params):
    weight = v1.get_variable('weight', [], initializer=v1.zeros_initializer())
    loss = -weight * tf.reduce_sum(features['number'])
    train_op = None
    if mode == 'train':
        train_op = v1.train.GradientDescentOptimizer(1.0).minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


job = Job(model_fn=model_fn, input_fn=input_fn)
"""


@pytest.mark.parametrize('flags, batches', [(['--batch_size=4'], 2), (['--batch_size=2', '--accumulate_steps=2'], 4)])
def test_replicas_without_an_input_context_train_each_example_once(flags, batches, tmp_path):
    (tmp_path / 'alone_job.py').write_text(ALONE_JOB)
    for max_steps in (7, 20):
        given = [f'--model_dir={tmp_path}/run', f'--max_steps={max_steps}', '--num_replicas=2', '--export=none']
        launch.trainer('--job=alone_job:job', *given, *flags, cwd=tmp_path)
    assert launch.weights(tmp_path / 'run')['weight'] == [sum(range(160)) / batches]  # of a step: their mean


def test_a_hook_that_trains_on_batches_of_its_own(tmp_path):
    (tmp_path / 'gan_job.py').write_text(GAN_JOB)
    flags = ['--job=gan_job:job', '--epochs=1', '--batch_size=4', '--export=none']
    launch.trainer(*flags, f'--model_dir={tmp_path}/at_once', cwd=tmp_path)
    launch.trainer(*flags, f'--model_dir={tmp_path}/resumed', cwd=tmp_path, STOPS='1')
    launch.trainer(*flags, f'--model_dir={tmp_path}/resumed', cwd=tmp_path)
    expected = launch.weights(tmp_path / 'at_once')
    assert expected['second'] == [sum(4 * number + place for number in range(2, 90, 3) for place in range(4))]
    assert launch.weights(tmp_path / 'resumed') == expected


def test_a_store_that_does_not_answer_a_hook(tmp_path):
    """Upstream's session begins again from the last checkpoint, where the data begin with those of step 0."""
    (tmp_path / 'sum_job.py').write_text(SUM_JOB)
    flags = ['--job=sum_job:job', '--max_steps=20', '--batch_size=1', '--save_checkpoints_steps=10', '--export=none']
    command = [sys.executable, '-m', 'estimator_trainer', *flags, f'--model_dir={tmp_path}/run']
    failed = launch.run(command, cwd=tmp_path, STORE='away')
    assert failed.code == 1 and 'AbortedError: All 10 retry attempts failed' in failed.output
    assert 'resumes at step 10' in launch.checked(launch.run(command, cwd=tmp_path)).output
    assert launch.weights(tmp_path / 'run')['weight'] == [sum(range(20))]
