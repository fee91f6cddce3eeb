"""training.several_steps in a real Estimator: what happens at which step stays the same."""

import glob
import logging
import types

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.config.trainer_config import parse
from estimator_trainer.lifecycle import watchdog as watchdogs
from estimator_trainer.training import estimator as training
from estimator_trainer.training import loop, waits
from estimator_trainer.training import plan as planning

v1 = tf.compat.v1
STEPS = 50


def model_fn(features, labels, mode, params):
    weights = v1.get_variable('weights', [8, 1])
    loss = tf.reduce_mean(tf.square(tf.nn.dropout(features, rate=0.2) @ weights - 1.0))
    step = v1.train.get_or_create_global_step()
    if params.get('nan_at'):
        loss = tf.where(tf.equal(step.read_value() + 1, params['nan_at']), np.float32('nan'), loss)
    if params.get('slow_from'):
        slow = tf.cond(
            step.read_value() >= params['slow_from'], lambda: tf.py_function(_sleep, [], tf.float32), lambda: 0.0
        )
        loss += slow
    v1.summary.scalar('twice', 2 * loss)
    train_op = v1.train.AdagradOptimizer(0.1).minimize(loss, global_step=step)
    hooks = [v1.train.LoggingTensorHook({'loss': loss}, every_n_iter=100)] if params.get('hook') else []
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=hooks)


def _sleep():
    import time

    time.sleep(0.4)
    return 0.0


def input_fn():
    values = np.random.RandomState(0).normal(size=[96, 4, 8]).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices(values).repeat()


class Threadless(watchdogs.Watchdog):
    def __init__(self):
        super().__init__('trainer', watchdogs.Bounds(), {}, leave=lambda code: None)


def trained(folder, steps_per_call, steps=STEPS, profiler=None, **params):
    """-> (steps of checkpoints, {step: loss in the summaries}, last weights, step after each call, {step: loss})."""
    flags = [
        f'--model_dir={folder}',
        f'--max_steps={steps}',
        f'--steps_per_call={steps_per_call}',
        '--save_checkpoints_steps=20',
        '--save_summary_steps=15',
        '--log_every_steps=10',
    ]
    plan = planning.make(parse(['trainer', *flags]), {})
    run_config = tf.estimator.RunConfig(
        str(folder), tf_random_seed=5, save_checkpoints_steps=20, save_summary_steps=15, log_step_count_steps=None
    )
    estimator = tf.estimator.Estimator(model_fn, config=run_config, params=params)
    calls, losses = [], {}

    class Loop(loop.Loop):
        def after(self, step, some):
            told = super().after(step, some)
            calls.append(step)
            losses.update(enumerate(some, step - len(some) + 1))
            return told

    watchdog, saved = Threadless(), []
    watchdog.saved = saved.append
    params = types.SimpleNamespace(max_steps=steps, start_step=0)
    setup = types.SimpleNamespace(
        plan=plan,
        params=params,
        loop=Loop(plan, params, watchdog, lambda: None, profiler),
        watchdog=watchdog,
        waits=waits.Waits(),
        counts=dict,
    )
    training.train_by_loop(estimator, setup, lambda step: None)
    estimator.train(input_fn, max_steps=steps)
    events = {}
    for path in glob.glob(f'{folder}/events*'):
        for event in v1.train.summary_iterator(path):
            values = {value.tag: value.simple_value for value in event.summary.value}
            if 'loss' in values:
                assert values['twice'] == 2 * values['loss']
                events[event.step] = values['loss']
    return saved, events, estimator.get_variable_value('weights'), calls, losses


def test_the_same_at_the_same_steps(tmp_path):
    """Upstream's own summaries of single steps may come a step early: it reads the step as it changes."""
    saved, _, weights, _, losses = trained(tmp_path / '1', 1)
    assert saved == [0, 20, 40, 50] and list(losses) == list(range(1, STEPS + 1))
    for steps_per_call in (7, 'auto', 1000):
        found = trained(tmp_path / str(steps_per_call), steps_per_call)
        assert found[0] == saved and found[4] == losses
        assert found[1] == {step: losses[step] for step in (1, 16, 31, 46)}
        np.testing.assert_array_equal(found[2], weights)
        assert found[3][-1] == STEPS and len(found[3]) < STEPS


def test_it_goes_on_from_a_checkpoint(tmp_path):
    trained(tmp_path / 'one', 1, 30)
    trained(tmp_path / 'many', 1, 30)
    one, many = trained(tmp_path / 'one', 1), trained(tmp_path / 'many', 'auto')
    assert one[0] == many[0] == [30, 50]
    assert one[4] == many[4] and list(many[4]) == list(range(31, STEPS + 1))
    np.testing.assert_array_equal(one[2], many[2])


@pytest.mark.parametrize('steps_per_call', [1, 'auto', 1000])
def test_a_nan_is_found_at_its_step(tmp_path, steps_per_call):
    with pytest.raises(loop.NotFiniteError, match='the loss is nan at step 33'):
        trained(tmp_path, steps_per_call, nan_at=33)


def test_a_hook_that_looks_at_every_step(tmp_path, caplog):
    with caplog.at_level(logging.INFO, 'estimator_trainer'):
        calls = trained(tmp_path, 'auto', hook=True)[3]
    assert calls == list(range(1, STEPS + 1))
    assert "one step a call: the job's LoggingTensorHook looks at every step" in caplog.text


def test_a_call_whose_steps_become_slow_ends_early(tmp_path):
    calls = trained(tmp_path, 1000, steps=25, slow_from=18)[3]
    assert calls[-1] == 25
    assert all(later - step <= 3 for step, later in zip(calls, calls[1:]) if step >= 20)
