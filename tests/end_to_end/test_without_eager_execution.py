"""Jobs that turn off what came with TensorFlow 2, as modules that were written for TensorFlow 1 do at their top."""

import launch
import numpy as np
import pytest

pytestmark = pytest.mark.slow

JOB = """
import time

import numpy as np
import tensorflow as tf

from estimator_trainer import Job
from estimator_trainer.data import array_batches

v1 = tf.compat.v1
%s


def input_fn(mode, params, input_context):
    x = np.random.RandomState(1).normal(size=[256, 8]).astype(np.float32)
    return array_batches({'x': x}, x.sum(1, keepdims=True), mode, params, input_context)


def model_fn(features, labels, mode, params):
    hidden = v1.get_variable('hidden', [8, 300])  # large enough to be added up in shared memory
    out = v1.get_variable('out', [300, 1])
    rate = v1.train.exponential_decay(0.01, v1.train.get_global_step(), 10, 0.5)
    loss = tf.reduce_mean(tf.square(tf.tanh(features['x'] @ hidden) @ out - labels))
    loss = tf.cond(loss > 1e6, lambda: loss * 0.0, lambda: loss)
    train_op = v1.train.MomentumOptimizer(rate, 0.9).minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


job = Job(model_fn=model_fn, input_fn=input_fn)
"""
TOPS = ['v1.disable_eager_execution()', 'v1.disable_v2_behavior()']


def train(folder, top, workers, batch_size):
    """The weights of a job with `top` at its top."""
    (folder / 'old.py').write_text(JOB % top)
    flags = ['--job=old:job', f'--model_dir={folder}/run', '--max_steps=40', f'--batch_size={batch_size}']
    if workers == 1:
        launch.trainer(*flags, cwd=folder)
    else:
        launch.cluster([f'--workers={workers}', '--noevaluator'], *flags, cwd=folder)
    return launch.weights(folder / 'run')


@pytest.fixture(scope='module')
def expected(tmp_path_factory):
    """The weights of the same job without such a call, of one process."""
    return train(tmp_path_factory.mktemp('plain'), '', 1, 32)


@pytest.mark.parametrize('top', TOPS)
def test_two_workers_compute_the_weights_of_one_process(tmp_path, expected, top):
    found = train(tmp_path, top, 2, 16)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6)
