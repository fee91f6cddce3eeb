"""A RunConfig of the job and hooks of it that act before the first step: calls of several steps honour them."""

import glob
import logging

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.config.trainer_config import parse
from estimator_trainer.training import estimator as training
from estimator_trainer.training import loop, reports
from estimator_trainer.training import plan as planning
from tests import fakes

v1 = tf.compat.v1


def model_fn(features, labels, mode, params):
    loss = tf.reduce_mean(tf.square(features - v1.get_variable('weight', [])), name='loss')
    step = v1.train.get_global_step()
    if params.get('reference'):
        v1.get_variable('reference', [], use_resource=False).assign_add(1.0)
        train_op = tf.group(
            v1.assign_add(v1.get_variable('other', [], use_resource=False), 1.0),
            v1.train.GradientDescentOptimizer(0.1).minimize(loss, step),
        )
    else:
        train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, step)
    hooks = [params['hook']()] if 'hook' in params else []
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=hooks)


def trained(folder, steps_per_call, steps=40, params=None, **of_run_config):
    """-> ({tag: steps of its summaries}, the step after each call)."""
    flags = [f'--model_dir={folder}', f'--max_steps={steps}', f'--steps_per_call={steps_per_call}']
    plan = planning.make(parse(['trainer', *flags]), {})
    run_config = tf.estimator.RunConfig(
        str(folder), tf_random_seed=5, **{'log_step_count_steps': None, 'save_checkpoints_steps': 1000} | of_run_config
    )
    estimator = tf.estimator.Estimator(model_fn, config=run_config, params=params or {})
    calls = []

    class Loop(loop.Loop):
        def after(self, step, losses):
            calls.append(step)
            return super().after(step, losses)

    watchdog, of_run = fakes.Watchdog(), fakes.params(max_steps=steps)
    setup = fakes.Setup(plan, of_run, watchdog, Loop(plan, of_run, watchdog, lambda: None), waits=reports.Waits())
    training.train_by_loop(estimator, setup, lambda step: None)
    numbers = np.random.RandomState(0).normal(size=1000).astype(np.float32)
    estimator.train(lambda: tf.data.Dataset.from_tensor_slices(numbers).batch(4).repeat(), max_steps=steps)
    events = {}
    for path in glob.glob(f'{folder}/events*'):
        for event in v1.train.summary_iterator(path):
            for value in event.summary.value:
                events.setdefault(value.tag, []).append(event.step)
    return events, calls


@pytest.mark.parametrize('every', [5, 0, None])
def test_summaries_are_those_of_its_run_config(tmp_path, every):
    single, calls = trained(tmp_path / '1', 1, save_summary_steps=every)
    several, fewer = trained(tmp_path / 'auto', 'auto', save_summary_steps=every)
    assert len(fewer) < len(calls) == 40
    assert several.get('loss_1') == single.get('loss_1') == (list(range(1, 41, 5)) if every else None)


def test_a_graph_that_cannot_loop_has_one_curve_of_the_loss(tmp_path):
    events, calls = trained(tmp_path, 'auto', params={'reference': True}, save_summary_steps=5)
    assert len(calls) == 40
    assert [tag for tag in events if tag.startswith('loss')] == ['loss_1'] and events['loss_1'] == list(range(1, 41, 5))


def test_steps_are_counted_and_not_calls(tmp_path):
    events, calls = trained(tmp_path, 'auto', log_step_count_steps=10)
    assert len(calls) < 40 and events['global_step/sec']


class Summarises(tf.estimator.SessionRunHook):
    def begin(self):
        v1.summary.histogram('histogram', v1.trainable_variables()[0])


def test_a_summary_that_a_hook_makes_is_missed_in_a_sentence(tmp_path, caplog):
    assert 'histogram' in trained(tmp_path / '1', 1, params={'hook': Summarises})[0]
    assert 'WARNING' not in caplog.text
    events, _ = trained(tmp_path / 'auto', 'auto', params={'hook': Summarises})
    assert 'histogram' not in events
    assert 'WARNING: the summary histogram is not written: a hook has made it in begin()' in caplog.text


class Restores(tf.estimator.SessionRunHook):
    """As programs of TensorFlow 1 that train a checkpoint of another run on."""

    def after_create_session(self, session, coord):
        v1.train.get_global_step().load(1000, session)


def test_steps_go_on_from_the_one_that_a_hook_restores(tmp_path, caplog):
    with caplog.at_level(logging.INFO, 'estimator_trainer'):
        single, _ = trained(tmp_path / '1', 1, 1030, {'hook': Restores}, save_summary_steps=10)
        several, calls = trained(tmp_path / 'auto', 'auto', 1030, {'hook': Restores}, save_summary_steps=10)
    assert several['loss_1'] == single['loss_1'] == [1001, 1011, 1021]
    assert calls[-1] == 1030 and len(calls) < 30
    assert 'one step a call' not in caplog.text


def test_who_restores_the_last_step_trains_one(tmp_path):
    for steps_per_call in (1, 'auto'):
        _, calls = trained(tmp_path / str(steps_per_call), steps_per_call, 1000, {'hook': Restores})
        assert calls == [1001]
