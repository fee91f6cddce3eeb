"""A process that trains alone evaluates on the way. It makes the evaluator's Estimator while its graph is final."""

import launch
import pytest

pytestmark = pytest.mark.slow

JOBS = """
import numpy as np
import tensorflow as tf

from estimator_trainer import Job
from estimator_trainer.data import array_batches

X = np.random.RandomState(1).normal(size=[256, 8]).astype(np.float32)


def classes(mode, params, input_context):
    return array_batches({'x': X}, np.where(X[:, :1] > 0, 2, 0), mode, params, input_context)


def sums(mode, params, input_context):
    return array_batches({'x': X}, X.sum(1, keepdims=True), mode, params, input_context)


def classifier(run_config, params):
    columns = [tf.feature_column.numeric_column('x', [8])]
    return tf.estimator.DNNClassifier([4], columns, n_classes=3, config=run_config)


def of_keras(run_config, params):
    features = tf.keras.Input([8], name='x')
    model = tf.keras.Model(features, tf.keras.layers.Dense(1)(tf.keras.layers.Dense(4)(features)))
    model.compile(tf.keras.optimizers.legacy.SGD(0.01), 'mse')
    return tf.keras.estimator.model_to_estimator(model, config=run_config)


canned = Job(make_estimator=classifier, input_fn=classes)
keras = Job(make_estimator=of_keras, input_fn=sums)
"""


@pytest.mark.parametrize('job', ['canned', 'keras'])
def test_an_estimator_that_makes_operations_as_it_is_made(tmp_path, job):
    (tmp_path / 'own.py').write_text(JOBS)
    launch.trainer(
        f'--job=own:{job}',
        f'--model_dir={tmp_path}/run',
        '--max_steps=20',
        '--save_checkpoints_steps=10',
        '--eval_throttle_secs=0',
        cwd=tmp_path,
    )
    on_the_way = launch.metrics(tmp_path / 'run')
    assert [line['step'] for line in on_the_way] == [10, 20]
    finished = launch.trainer('evaluate', f'--model_dir={tmp_path}/run', cwd=tmp_path)
    assert f'"loss": {on_the_way[-1]["loss"]}' in finished.output
