"""training.keras_training and keras_fit: where training begins, and what TensorBoard is told."""

import dataclasses
import glob
import math
import types
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.config import trainer_config
from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import input_fns, losses
from estimator_trainer.jobs.job import Job, KerasParts
from estimator_trainer.run_dir import checkpoint_errors, checkpoints, training_file
from estimator_trainer.training import custom_loop, keras_fit, keras_training, loop, plan, reports, run_task
from estimator_trainer.training.trainer import Setup
from tests import fakes

RATES = [0.5, 0.4, 0.3, 0.2, 0.1, 0.05]  # of the steps 1 to 6
BATCH, EXAMPLES = 4, 12  # three steps are an epoch


def make_model(params):
    inputs = tf.keras.Input([2], name='x')
    return tf.keras.Model({'x': inputs}, tf.keras.layers.Dense(1)(inputs))


def make_optimizer(params):
    boundaries = list(range(len(RATES) - 1))
    return tf.keras.optimizers.legacy.SGD(tf.keras.optimizers.schedules.PiecewiseConstantDecay(boundaries, RATES))


def input_fn(mode, params, input_context=None):
    features = {'x': np.ones([BATCH, 2], np.float32)}
    return tf.data.Dataset.from_tensors((features, np.zeros([BATCH], np.float32))).repeat()


JOB = Job(
    make_model=make_model,
    parts=KerasParts(loss=lambda labels, outputs, params: (outputs[:, 0] - labels) ** 2, make_optimizer=make_optimizer),
    input_fn=input_fn,
    num_train_examples=EXAMPLES,
)


def setup(model_dir, *flags, start_step=0, reason=lambda: None):
    argv = ['--job=x:job', '--loop=keras_fit', f'--model_dir={model_dir}', '--max_steps=6', f'--batch_size={BATCH}']
    config = trainer_config.parse(['trainer', *argv, *flags])
    watchdog = fakes.Watchdog()
    params = fakes.params(
        batch_size=BATCH,
        num_replicas=1,
        initial_replicas=1,
        global_batch_size=BATCH,
        max_steps=6,
        num_examples=EXAMPLES,
        seed=1,
        start_step=start_step,
    )
    task = plan.make(config, {})
    run_configs = types.SimpleNamespace(own=types.SimpleNamespace(train_distribute=None))
    given = loop.Loop(task, params, watchdog, reason)
    return Setup(task, watchdog, JOB, params, run_configs, input_fns.by_name(input_fn), given, reports.Waits())


def summaries(folder):
    """[(tag, step, value)] of TensorBoard's events."""
    found = []
    for path in glob.glob(f'{folder}/events.out.tfevents.*'):
        for event in tf.compat.v1.train.summary_iterator(path):
            for value in event.summary.value:
                number = value.simple_value if value.HasField('simple_value') else tf.make_ndarray(value.tensor).item()
                found.append((value.tag, event.step, number))
    return found


@pytest.mark.parametrize('trainer', [keras_fit.KerasFitTrainer, custom_loop.CustomLoopTrainer])
def test_training_ends_with_the_checkpoint_whose_evaluation_decides_it(tmp_path, trainer):
    evaluated = []
    given = setup(
        tmp_path, '--save_checkpoints_steps=2', reason=lambda: training_file.EARLY_STOPPING if 2 in evaluated else None
    )
    trainer(given).train(evaluated.append)
    assert (given.loop.step, given.loop.why, evaluated) == (2, training_file.EARLY_STOPPING, [0, 2])


def test_a_checkpoint_of_step_0_is_restored(tmp_path):
    with keras_training.KerasTraining(setup(tmp_path), lambda step: None) as run:  # the first thing that it saves
        first = [weight.numpy() for weight in run.model.weights]
        for weight in run.model.weights:
            weight.assign(tf.fill(weight.shape, 7.0))
        run._manager.save(checkpoint_number=0)  # such as `migrate` writes one, for a warm start
    saved = []
    with keras_training.KerasTraining(setup(tmp_path), saved.append) as run:
        assert all(np.all(weight.numpy() == 7) for weight in run.model.weights) and not run.begins.stop
    assert saved == [] and not all(np.all(weight == 7) for weight in first)


def test_a_weight_that_begins_as_infinity_may_stay_so_after_a_resume_too(tmp_path):
    with keras_training.KerasTraining(setup(tmp_path), lambda step: None) as run:  # the first thing that it saves
        run.model.trainable_variables[1].assign([np.inf])
        run._manager.save(checkpoint_number=0)
    with keras_training.KerasTraining(setup(tmp_path), lambda step: None) as run:
        assert np.isinf(run.model.trainable_variables[1].numpy())
        run.save(2)
        run.model.trainable_variables[0].assign([[1.0], [np.nan]])
        with pytest.raises(loop.NotFiniteError, match='kernel'):
            run.save(3)


def test_a_checkpoint_that_cannot_be_read_is_no_absent_one(tmp_path, monkeypatch):
    (tmp_path / 'checkpoint').mkdir()  # so that the system refuses to read it
    monkeypatch.setattr(checkpoint_errors, 'PAUSES_SECS', ())
    with pytest.raises(checkpoint_errors.CannotReadCheckpoint):
        keras_training.KerasTraining(setup(tmp_path), lambda step: None)
    trainer, evaluation = mock.Mock(evaluates_first_checkpoint=True), mock.Mock()
    saved = run_task._evaluate_on_the_way(setup(tmp_path), trainer, evaluation, lambda: True, mock.Mock())
    with pytest.raises(checkpoint_errors.CannotReadCheckpoint):
        saved(3)
    evaluation.of.assert_not_called()


@pytest.mark.parametrize('epochs, evaluated', [(None, []), (2.0, ['checkpoint'])])
def test_with_epochs_no_global_step_is_taken_for_the_last_one(tmp_path, monkeypatch, epochs, evaluated):
    """A step of the job may move it by 2."""
    given = setup(tmp_path)
    config = dataclasses.replace(given.plan.config, epochs=epochs)
    given = dataclasses.replace(given, plan=dataclasses.replace(given.plan, config=config))
    monkeypatch.setattr(run_task.checkpoints, 'newest', lambda model_dir, step: 'checkpoint')
    trainer, evaluation = mock.Mock(evaluates_first_checkpoint=True), mock.Mock()
    run_task._evaluate_on_the_way(given, trainer, evaluation, lambda: True, mock.Mock())(given.params.max_steps + 1)
    assert [call.args[0] for call in evaluation.evaluate_checkpoint.call_args_list] == evaluated


@pytest.mark.parametrize('steps_per_call', ['1', 'auto'])
def test_an_epoch_is_summed_up_once_however_often_checkpoints_come(tmp_path, steps_per_call):
    given = setup(
        tmp_path, '--save_checkpoints_steps=2', '--save_summary_steps=1', f'--steps_per_call={steps_per_call}'
    )
    saved = []
    keras_fit.KerasFitTrainer(given).train(saved.append)
    assert saved == [0, 2, 3, 5, 6]  # at the ends of epochs as well
    epochs = [(step, value) for tag, step, value in summaries(tmp_path / 'train') if tag == 'epoch_learning_rate']
    assert epochs == [(0, pytest.approx(RATES[0])), (1, pytest.approx(RATES[3]))]
    rates = {step: value for tag, step, value in summaries(tmp_path) if tag == 'learning_rate'}
    assert rates == {step: pytest.approx(rate) for step, rate in enumerate(RATES, 1)}
    losses = {step: value for tag, step, value in summaries(tmp_path) if tag == 'loss'}
    of_epochs = [value for tag, _, value in summaries(tmp_path / 'train') if tag == 'epoch_loss']
    means = [sum(losses[step] for step in steps) / 3 for steps in ((1, 2, 3), (4, 5, 6))]
    assert of_epochs == [pytest.approx(mean, rel=1e-5) for mean in means] and math.isfinite(sum(means))


@pytest.mark.parametrize('loop', [keras_fit.KerasFitTrainer, custom_loop.CustomLoopTrainer])
@pytest.mark.parametrize('steps_per_call', ['1', 'auto'])
def test_the_last_batch_is_trained_though_not_every_replica_gets_one(tmp_path, two, loop, steps_per_call):
    def input_fn(mode, params, input_context=None):
        features = {'x': np.ones([3 * BATCH, 2], np.float32)}
        rows = tf.data.Dataset.from_tensor_slices((features, np.zeros([3 * BATCH], np.float32)))
        return rows.batch(BATCH, drop_remainder=True)

    given = setup(tmp_path, f'--steps_per_call={steps_per_call}')
    configs = types.SimpleNamespace(own=types.SimpleNamespace(train_distribute=two))
    given = dataclasses.replace(given, run_configs=configs, input_fn=input_fns.by_name(input_fn))
    loop(given).train(lambda step: None)
    assert checkpoints.last_step(str(tmp_path)) == 2


@pytest.mark.parametrize('loop', [keras_fit.KerasFitTrainer, custom_loop.CustomLoopTrainer])
def test_metrics_of_several_numbers_end_no_epoch(tmp_path, loop, caplog):
    def metrics(params):
        return {'mae': tf.keras.metrics.MeanAbsoluteError(), 'recall': tf.keras.metrics.Recall([0.2, 0.8])}

    given = dataclasses.replace(
        setup(tmp_path), job=dataclasses.replace(JOB, parts=dataclasses.replace(JOB.parts, metrics=metrics))
    )
    with caplog.at_level('INFO', 'estimator_trainer'):
        loop(given).train(lambda step: None)
    assert 'mae ' in caplog.text and 'recall' not in caplog.text


def test_what_a_job_gives_wrongly_is_refused_in_a_sentence(tmp_path):
    def refused(why, parts=JOB.parts, **given):
        job = dataclasses.replace(JOB, parts=parts, **given)
        with pytest.raises(UsageError, match=why):
            custom_loop.CustomLoopTrainer(dataclasses.replace(setup(tmp_path), job=job)).train(print)

    def sequential(params):
        return tf.keras.Sequential([tf.keras.layers.Lambda(lambda features: features['x']), tf.keras.layers.Dense(1)])

    refused('gives a model that has no weights yet', make_model=sequential)
    kinds = {
        'tf_keras.*SGD|keras.*SGD': tf.keras.optimizers.SGD,
        'GradientDescent': tf.compat.v1.train.GradientDescentOptimizer,
    }
    for name, kind in kinds.items():
        parts = dataclasses.replace(JOB.parts, make_optimizer=lambda params: kind(0.1))
        refused(f'make_optimizer gives a .*({name}).*, and one of tf.keras.optimizers.legacy is needed', parts)
    parts = dataclasses.replace(JOB.parts, metrics=lambda params: {'loss': tf.keras.metrics.Mean()})
    refused("the trainer itself reports 'loss'", parts)


def test_the_reported_rate_is_that_of_the_optimizer(tmp_path):
    def trained(**settings):
        parts = dataclasses.replace(JOB.parts, make_optimizer=lambda params: tf.keras.optimizers.legacy.SGD(**settings))
        given = setup(tmp_path / str(len(settings)), '--save_summary_steps=1')
        custom_loop.CustomLoopTrainer(dataclasses.replace(given, job=dataclasses.replace(JOB, parts=parts))).train(
            print
        )
        found = summaries(tmp_path / str(len(settings)))
        return {step: value for tag, step, value in found if tag == 'learning_rate'}

    assert trained(learning_rate=lambda: 0.25)[6] == 0.25
    assert trained(learning_rate=0.5, decay=1.0) == {step: pytest.approx(0.5 / step) for step in range(1, 7)}


@pytest.mark.parametrize('loop', [keras_fit.KerasFitTrainer, custom_loop.CustomLoopTrainer])
def test_what_a_layer_adds_to_its_losses_is_warned_of(tmp_path, loop, caplog):
    class Adds(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = tf.keras.layers.Dense(1)

        def call(self, features):
            self.add_loss(tf.reduce_mean(features['x']))
            return self.dense(features['x'])

    losses.say_unused.cache_clear()
    given = setup(tmp_path)
    loop(dataclasses.replace(given, job=dataclasses.replace(JOB, make_model=lambda params: Adds()))).train(print)
    assert caplog.text.count('nothing adds them to the loss of the job') == 1


@pytest.mark.parametrize('loop', [keras_fit.KerasFitTrainer, custom_loop.CustomLoopTrainer])
@pytest.mark.parametrize('with_weights, has', [(True, '3 parts'), (False, 'features alone')])
def test_batches_that_are_no_pairs_are_refused(tmp_path, loop, with_weights, has):
    def input_fn(mode, params, input_context=None):
        ones = np.ones([BATCH], np.float32)
        features = {'x': np.ones([BATCH, 2], np.float32)}
        return tf.data.Dataset.from_tensors((features, ones, ones) if with_weights else features).repeat()

    given = dataclasses.replace(setup(tmp_path), input_fn=input_fns.by_name(input_fn))
    with pytest.raises(
        UsageError, match=f'--loop=keras_fit: each batch of the input_fn has {has}.*and .features, labels. are needed'
    ):
        loop(given).train(lambda step: None)
