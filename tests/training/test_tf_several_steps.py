"""training.several_steps in a real Estimator: what happens at which step stays the same."""

import glob
import logging

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.config.trainer_config import parse
from estimator_trainer.errors import NoBatch
from estimator_trainer.training import estimator as training
from estimator_trainer.training import loop, reports, several_steps
from estimator_trainer.training import plan as planning
from tests import fakes

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
    train_op = params.get('train_op', counts_by_one)(v1.train.AdagradOptimizer(0.1), loss, step)
    hooks = [params['hook'](loss)] if params.get('hook') else []
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=hooks)


def counts_by_one(optimizer, loss, step):
    return optimizer.minimize(loss, global_step=step)


def counts_by_two(optimizer, loss, step):
    """As a GAN does, of which both optimizers count."""
    with tf.control_dependencies([optimizer.minimize(loss, global_step=step)]):
        return step.assign_add(1)


def counts_every_fourth(optimizer, loss, step):
    """As a job does that accumulates gradients."""
    batches = v1.get_variable('batches', [], tf.int64, v1.zeros_initializer(), trainable=False)
    with tf.control_dependencies([optimizer.minimize(loss), batches.assign_add(1)]):
        return step.assign_add(tf.cast(tf.equal(batches.read_value() % 4, 0), tf.int64))


def counts_but_rarely_not(optimizer, loss, step):
    """As a job does that scales its loss, and leaves out a step that overflows."""
    batches = v1.get_variable('batches', [], tf.int64, v1.zeros_initializer(), trainable=False)
    with tf.control_dependencies([optimizer.minimize(loss), batches.assign_add(1)]):
        return step.assign_add(tf.cast(tf.not_equal(batches.read_value() % 17, 16), tf.int64))


def never_counts(optimizer, loss, step):
    return optimizer.minimize(loss)


class Ends(v1.train.SessionRunHook):
    """Has the session between two calls, and does nothing."""

    __init__ = end = lambda self, *_: None


class StopsAtTen(v1.train.SessionRunHook):
    def __init__(self, loss):
        self._calls = 0

    def after_run(self, run_context, run_values):
        self._calls += 1
        if self._calls == 10:
            run_context.request_stop()


class Listener(v1.train.CheckpointSaverListener):
    def after_save(self, session, global_step_value):
        return global_step_value >= 12


def saver_of(folder):
    return lambda loss: v1.train.CheckpointSaverHook(str(folder), save_steps=6, listeners=[Listener()])


def _sleep():
    import time

    time.sleep(0.4)
    return 0.0


def input_fn(batches=10**6):
    values = np.random.RandomState(0).normal(size=[96, 4, 8]).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices(values).repeat().take(batches)


def trained(folder, steps_per_call, steps=STEPS, profiler=None, **params):
    """-> (steps of checkpoints, {step: loss in the summaries}, last weights, step after each call, {step: loss})."""
    return _trained(folder, steps_per_call, steps, profiler, **params)[:5]


def ended(folder, steps_per_call, steps=STEPS, **params):
    """-> (steps of checkpoints, why training has ended, batches, last step, last weights)."""
    saved, _, weights, _, _, its = _trained(folder, steps_per_call, steps, **params)
    return saved, its.why, its.batches, its.step, weights.tolist()


def _trained(folder, steps_per_call, steps, profiler=None, batches=10**6, **params):
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

    watchdog, params = fakes.Watchdog(), fakes.params(max_steps=steps)
    setup = fakes.Setup(
        plan, params, watchdog, Loop(plan, params, watchdog, lambda: None, profiler), waits=reports.Waits()
    )
    training.train_by_loop(estimator, setup, lambda step: None)
    estimator.train(lambda: input_fn(batches), max_steps=steps)
    assert not batches or setup.waits.totals()['input_wait_secs'] > 0
    events = {}
    for path in glob.glob(f'{folder}/events*'):
        for event in v1.train.summary_iterator(path):
            values = {value.tag: value.simple_value for value in event.summary.value}
            if 'loss' in values:
                assert values['twice'] == 2 * values['loss']
                events[event.step] = values['loss']
    return watchdog.checkpoints, events, estimator.get_variable_value('weights'), calls, losses, setup.loop


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


class SubclassOfUpstreams(v1.train.StopAtStepHook):
    """With a method of its own."""

    def after_run(self, run_context, run_values):
        super().after_run(run_context, run_values)


@pytest.mark.parametrize(
    'hook, why',
    [
        (lambda loss: v1.train.LoggingTensorHook({'loss': loss}, every_n_iter=100), 'LoggingTensorHook looks at every'),
        (v1.train.NanTensorHook, 'NanTensorHook looks at every step'),
        (lambda loss: v1.train.StopAtStepHook(last_step=1000), 'StopAtStepHook looks at every step'),
        (lambda loss: SubclassOfUpstreams(last_step=1000), 'SubclassOfUpstreams looks at every step'),
        (Ends, 'Ends may run a part of the step, and the step draws random numbers'),
    ],
)
def test_hooks_of_the_job_that_mean_one_step_a_call(tmp_path, caplog, hook, why):
    """The same classes of upstream, made by Estimator itself, do not."""
    with caplog.at_level(logging.INFO, 'estimator_trainer'):
        calls = trained(tmp_path, 'auto', hook=hook)[3]
    assert calls == list(range(1, STEPS + 1))
    assert "one step a call: the job's " + why in caplog.text


def averages_beside(optimizer, loss, step):
    average = v1.train.ExponentialMovingAverage(0.5).apply(v1.trainable_variables())
    return tf.group(optimizer.minimize(loss, global_step=step), average)


def draws_in_a_function(optimizer, loss, step):
    (weights,) = v1.trainable_variables()
    return optimizer.minimize(loss + tf.reduce_sum(tf.function(lambda: tf.nn.dropout(weights * 1.0, 0.4))()), step)


def draws_a_first_value(optimizer, loss, step):
    noise = tf.random.normal([], seed=1)
    v1.get_variable('noise', initializer=noise, trainable=False)
    return optimizer.minimize(loss * noise, step)


@pytest.mark.parametrize(
    'train_op, why',
    [
        (averages_beside, 'the step uses weights beside an operation that changes it'),
        (draws_in_a_function, 'draws random numbers in a function'),
        (draws_a_first_value, 'draws random numbers for the step and for a first value'),
    ],
)
def test_what_a_loop_may_compute_otherwise_means_one_step_a_call(tmp_path, caplog, train_op, why):
    with caplog.at_level(logging.INFO, 'estimator_trainer'):
        calls = trained(tmp_path, 'auto', train_op=train_op)[3]
    assert calls == list(range(1, STEPS + 1))
    assert 'one step a call: ' in caplog.text and why in caplog.text


@pytest.mark.parametrize('deterministic', [True, False])
def test_deterministic_runs_are_told_of_it_with_any_steps_per_call(caplog, deterministic):
    setup = fakes.Setup(fakes.Plan(config=fakes.config(deterministic=deterministic, steps_per_call='1')))
    with tf.Graph().as_default():
        weight, step = v1.get_variable('weight', initializer=1.0), v1.train.get_or_create_global_step()
        train_op = averages_beside(v1.train.GradientDescentOptimizer(0.1), weight**2, step)
        spec = tf.estimator.EstimatorSpec('train', loss=weight**2, train_op=train_op)
        several, why = several_steps.make(setup, tf.estimator.RunConfig(), spec, [], None, step.read_value())
    assert (several, why) == (None, '')
    assert ('WARNING: --deterministic: the step uses weight beside' in caplog.text) == deterministic


@pytest.mark.parametrize(
    'train_op, saved, batches',
    [
        (counts_by_two, [0, 20, 40, 52], 26),  # as upstream's StopAtStepHook, which sees step 50 and not yet 52
        (counts_every_fourth, [0, 20, 40, 50], 200),
        (counts_but_rarely_not, [0, 20, 40, 50], 53),
    ],
)
def test_a_global_step_that_does_not_count_batches(tmp_path, train_op, saved, batches):
    one = ended(tmp_path / '1', 1, train_op=train_op)
    assert one[:4] == (saved, 'max_steps', batches, saved[-1])
    for steps_per_call in (7, 'auto'):
        assert ended(tmp_path / str(steps_per_call), steps_per_call, train_op=train_op) == one


@pytest.mark.parametrize('steps_per_call', [1, 7])
def test_what_ends_training_has_a_word_of_its_own(tmp_path, steps_per_call):
    def why(name, **params):
        return ended(tmp_path / name, steps_per_call, **params)[1:4]

    with pytest.raises(NoBatch, match="no batch when mode is 'train'"):
        _trained(tmp_path / 'none', steps_per_call, STEPS, batches=0)[5].check_trained()
    _trained(tmp_path / 'one', steps_per_call, STEPS, batches=1)[5].check_trained()
    assert why('data', batches=33) == ('end_of_data', 33, 33)
    assert why('stands', batches=33, train_op=never_counts) == ('step_stands', 33, 0)
    assert why('hook', hook=StopsAtTen) == ('hook', 10, 10)
    assert why('stop hook', hook=lambda loss: v1.train.StopAtStepHook(last_step=9)) == ('hook', 9, 9)
    assert why('listener', hook=saver_of(tmp_path / 'listener')) == ('listener', 12, 12)


def test_a_global_step_that_stands_is_told(tmp_path, caplog):
    ended(tmp_path, 'auto', batches=120, train_op=never_counts)
    assert 'the global step has not moved in 100 batches' in caplog.text


def test_an_iterator_that_the_step_does_not_read_is_not_read(tmp_path):
    """Its two batches would end the training."""

    class Reads(v1.train.SessionRunHook):
        def __init__(self, loss):
            self._next = v1.data.make_one_shot_iterator(tf.data.Dataset.range(2)).get_next()

        def end(self, session):
            assert session.run([self._next, self._next])[0] == 0

    assert ended(tmp_path, 1, hook=Reads)[1] == 'max_steps'


def test_a_call_whose_steps_become_slow_ends_early(tmp_path):
    calls = trained(tmp_path, 1000, steps=25, slow_from=18)[3]
    assert calls[-1] == 25
    assert all(later - step <= 3 for step, later in zip(calls, calls[1:]) if step >= 20)
