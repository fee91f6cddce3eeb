"""--mixed_precision in the three loops: steps compute in 16 bits, and what is kept is float32."""

import logging
import types
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.config import trainer_config
from estimator_trainer.evaluation import keras_evaluator
from estimator_trainer.jobs import input_fns, run_params
from estimator_trainer.jobs.job import Job, KerasParts
from estimator_trainer.run_dir import checkpoints
from estimator_trainer.training import loop, plan, reports, trainer

SIZE, BATCH, STEPS = 64, 32, 12
KERAS = ('keras_fit', 'custom_loop')
SAW = set()  # what the losses were given, and the weights


def batch():
    random = np.random.RandomState(1)
    x = random.normal(size=[BATCH, SIZE]).astype(np.float32)
    return {'x': x}, (x[:, :1] > 0).astype(np.float32)[:, 0]


def input_fn(mode, params, input_context=None):
    return tf.data.Dataset.from_tensors(batch()).repeat()


def make_model(params):
    inputs = tf.keras.Input([SIZE], name='x')
    hidden = tf.keras.layers.Dense(SIZE, 'relu', kernel_initializer=tf.keras.initializers.GlorotUniform(1))(inputs)
    return tf.keras.Model({'x': inputs}, tf.keras.layers.Dense(1, kernel_initializer='zeros')(hidden))


def loss(labels, outputs, params):
    SAW.add(outputs.dtype.name)
    return tf.nn.sigmoid_cross_entropy_with_logits(labels, outputs[:, 0])


def model_fn(features, labels, mode, params, config):
    model = make_model(params)
    loss_of_batch = tf.reduce_mean(loss(labels, model(features), params))
    step = tf.compat.v1.train.get_global_step()
    train_op = tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(loss_of_batch, step)
    return tf.estimator.EstimatorSpec(mode, loss=loss_of_batch, train_op=train_op)


JOB = Job(
    model_fn=model_fn,
    make_model=make_model,
    parts=KerasParts(loss=loss, make_optimizer=lambda params: tf.keras.optimizers.legacy.SGD(0.1)),
    input_fn=input_fn,
)


def setup(model_dir, kind, *flags, steps=STEPS, job=JOB):
    argv = ['--job=x:job', f'--model_dir={model_dir}', f'--max_steps={steps}', f'--batch_size={BATCH}', *flags]
    config = trainer_config.parse(['trainer', *argv, *([f'--mixed_precision={kind}'] if kind else [])])
    watchdog = mock.Mock(signum=None, stopped_by=None)
    start = checkpoints.last_step(str(model_dir))
    params = run_params.RunParams(
        dict(job.params), BATCH, 1, 1, BATCH, max_steps=steps, num_examples=1000 * BATCH, seed=1, start_step=start
    )
    task = plan.make(config, {})
    own = tf.estimator.RunConfig(
        model_dir=str(model_dir), tf_random_seed=1, save_checkpoints_steps=100, log_step_count_steps=None
    )
    run_configs = types.SimpleNamespace(own=own, local=own)
    given = loop.Loop(task, params, watchdog, lambda: None)
    return trainer.Setup(
        task, watchdog, job, params, run_configs, input_fns.by_name(job.input_fn), given, reports.Waits()
    )


def trained(model_dir, kind, *flags, **given):
    """{name: value} of the last checkpoint."""
    made = setup(model_dir, kind, *flags, **given)
    trainer.make_trainer(made).train(lambda step: None)
    reader = tf.train.load_checkpoint(str(model_dir))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map() if 'OBJECT' not in name}


@pytest.mark.parametrize('loop_name', ['estimator', *KERAS])
def test_steps_of_bfloat16(tmp_path, caplog, loop_name):
    caplog.set_level(logging.INFO, 'estimator_trainer')
    single = trained(tmp_path / 'float32', None, f'--loop={loop_name}')
    SAW.clear()
    mixed = trained(tmp_path / 'mixed', 'bfloat16', f'--loop={loop_name}')
    assert SAW == {'float32'}
    assert {name: value.dtype for name, value in mixed.items()} == {name: one.dtype for name, one in single.items()}
    largest = max(np.abs(mixed[name] - value).max() for name, value in single.items() if value.dtype == np.float32)
    if loop_name == 'estimator':
        said = [record.message for record in caplog.records if 'of a step' in record.message]
        assert len(said) == 1
        if 'computes no operation' in said[0]:  # this CPU has no kernels
            assert largest == 0
            return
    assert 0 < largest < 0.02
    if loop_name != 'estimator':  # a model for an evaluation, and for an export, computes in float32
        evaluator = keras_evaluator.KerasEvaluator(JOB, {}, str(tmp_path / 'mixed'), lambda: input_fn(None, None))
        evaluator.restore(checkpoints.latest(str(tmp_path / 'mixed')))
        assert {layer.compute_dtype for layer in evaluator.model.layers} == {'float32'}
        assert evaluator.model(batch()[0]).dtype == tf.float32
