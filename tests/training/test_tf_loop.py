"""training.loop in real training of a tiny model, with a watchdog that only listens."""

import itertools
import math
import signal
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.training import monitored_session

from estimator_trainer.config.trainer_config import parse
from estimator_trainer.errors import UsageError
from estimator_trainer.evaluation import estimator_evaluator
from estimator_trainer.lifecycle import end_policy
from estimator_trainer.run_dir import checkpoints, training_file
from estimator_trainer.training import estimator as training
from estimator_trainer.training import loop, reports, session_hook
from tests import fakes

v1 = tf.compat.v1
TERM, INT = signal.SIGTERM, signal.SIGINT
NAN, INF = math.nan, math.inf


def model_fn(features, labels, mode, params):
    """`loss_at`, `weight_at`: (step, value) of that step's loss, or of the weight after it."""
    del features, labels
    step = v1.train.get_or_create_global_step()
    weight = v1.get_variable('weight', [2], initializer=v1.ones_initializer())
    least = v1.get_variable('least_loss', [], initializer=v1.constant_initializer(INF))  # it has no gradient
    v1.get_variable('whole', [], tf.int32, initializer=v1.zeros_initializer())
    next_step = step + 1
    loss = tf.constant(2.0)
    if 'loss_at' in params:
        at, value = params['loss_at']
        loss = tf.where(tf.equal(next_step, at), value, loss)
    new_weight = [1.0, 3.0]
    if 'weight_at' in params:
        at, value = params['weight_at']
        new_weight = tf.where(tf.equal(next_step, at), [1.0, value], new_weight)
    v1.losses.add_loss(tf.constant(NAN))  # a part of no loss
    with tf.control_dependencies([loss, weight.assign(new_weight), least.assign(params.get('least_loss', INF))]):
        train_op = step.assign_add(params.get('stride', 1))
    restores = v1.train.Scaffold(init_fn=lambda _, session: step.load(params['restored_step'], session))
    scaffold = restores if 'restored_step' in params else None
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, scaffold=scaffold)


def input_fn():
    return tf.data.Dataset.from_tensors(([1.0], [1.0])).repeat()


class At(tf.estimator.SessionRunHook):
    """Does something after so many steps of this session."""

    def __init__(self, steps, do):
        self._steps, self._do = steps, do

    def after_run(self, run_context, run_values):
        self._steps -= 1
        if not self._steps:
            self._do()


@pytest.fixture
def watchdog():
    return fakes.Watchdog()


def train(
    folder,
    watchdog,
    max_steps=8,
    is_chief=True,
    asynchronous=False,
    reason=lambda: None,
    hooks=(),
    save_steps=1000,
    strategy=None,
    saved=lambda step: None,
    clock=None,
    steps_per_call=1,
    epochs=None,
    **params,
):
    """Returns the loop. Unless the test has a clock, a second passes between two looks, and each asks for a reason."""
    run_config = tf.estimator.RunConfig(
        str(folder),
        save_checkpoints_steps=save_steps,
        log_step_count_steps=None,
        save_summary_steps=0,
        train_distribute=strategy,
    )
    end = f'--max_steps={max_steps}' if epochs is None else f'--epochs={epochs}'
    config = parse(['trainer', f'--model_dir={folder}', f'--steps_per_call={steps_per_call}', end])
    plan = fakes.Plan(config=config, is_chief=is_chief, asynchronous=asynchronous, global_batch_size=1)
    run_params = fakes.params(max_steps=max_steps)
    its = loop.Loop(plan, run_params, watchdog, reason, clock=clock or itertools.count().__next__)
    setup = fakes.Setup(plan, run_params, watchdog, its, reports.Waits())
    estimator = tf.estimator.Estimator(model_fn, config=run_config, params=params)
    training.train_by_loop(estimator, setup, saved)
    estimator.train(input_fn, hooks=list(hooks), max_steps=max_steps)
    return its


def last_step(folder):
    return checkpoints.last_step(str(folder))


def test_the_watchdog_is_told_of_steps_and_checkpoints(tmp_path, watchdog):
    its = train(tmp_path, watchdog, save_steps=3)
    assert watchdog.steps == [1, 2, 3, 4, 5, 6, 7, 8] and watchdog.step == 8
    assert watchdog.checkpoints == [0, 3, 6, 8] and watchdog.checkpoint_step == 8
    assert (its.why, watchdog.stopped_by, watchdog._state.phase) == ('max_steps', None, end_policy.CLOSING)


def test_a_resumed_run_counts_on(tmp_path, watchdog):
    train(tmp_path, fakes.Watchdog(), 3)
    train(tmp_path, watchdog, 5)
    assert watchdog.steps == [4, 5] and watchdog.checkpoints == [3, 5]


@pytest.mark.parametrize('steps_per_call', [1, 3])
def test_epochs_count_batches_where_an_init_fn_restores_another_global_step(tmp_path, watchdog, steps_per_call):
    its = train(tmp_path, watchdog, epochs=1, restored_step=100, steps_per_call=steps_per_call)
    assert (its.batches, its.step, its.why) == (8, 108, 'max_steps') and last_step(tmp_path) == 108


@pytest.mark.parametrize('signum', [TERM, INT])
def test_a_signal_stops_and_saves(tmp_path, watchdog, signum):
    its = train(tmp_path, watchdog, hooks=[At(3, lambda: watchdog._received(signum))])
    assert (watchdog.steps, watchdog.stopped_by, its.why) == ([1, 2, 3, 4], signum, None)
    assert last_step(tmp_path) == watchdog.checkpoint_step == 4


@pytest.mark.parametrize('reason', [training_file.EARLY_STOPPING, training_file.MAX_SECS])
def test_a_reason_stops_and_saves(tmp_path, watchdog, reason):
    its = train(tmp_path, watchdog, reason=lambda: reason if watchdog.step >= 4 else None)
    assert (watchdog.steps, watchdog.stopped_by, its.why) == ([1, 2, 3, 4], None, reason)
    assert last_step(tmp_path) == 4


def test_training_ends_with_the_checkpoint_whose_evaluation_decides_it(tmp_path, watchdog):
    evaluated = []
    its = train(
        tmp_path,
        watchdog,
        reason=lambda: training_file.EARLY_STOPPING if 4 in evaluated else None,
        save_steps=2,
        saved=evaluated.append,
        clock=lambda: 0.0,  # it stands still: nothing is asked between two checkpoints
    )
    assert (watchdog.steps, evaluated, its.why) == ([1, 2, 3, 4], [2, 4], training_file.EARLY_STOPPING)
    assert watchdog.checkpoints == [0, 2, 4]


def test_a_signal_that_comes_while_a_checkpoint_is_evaluated_ends_training_with_it(tmp_path, watchdog):
    train(tmp_path, watchdog, save_steps=2, saved=lambda step: watchdog._received(TERM))
    assert (watchdog.steps, watchdog.stopped_by, last_step(tmp_path)) == ([1, 2], TERM, 2)


def test_a_signal_is_stronger_than_a_reason(tmp_path, watchdog):
    watchdog._received(TERM)
    its = train(tmp_path, watchdog, reason=lambda: training_file.MAX_SECS)
    assert (watchdog.stopped_by, its.why) == (TERM, None)


@pytest.mark.parametrize('signum, reason', [(TERM, None), (None, training_file.EARLY_STOPPING)])
def test_what_is_known_before_the_first_step_lets_it_not_happen(tmp_path, watchdog, signum, reason):
    train(tmp_path, fakes.Watchdog(), 3)
    if signum:
        watchdog._received(signum)
    its = train(tmp_path, watchdog, reason=lambda: reason)
    assert (watchdog.steps, watchdog.stopped_by, its.why) == ([], signum, reason)
    assert last_step(tmp_path) == watchdog.step == 3


@pytest.mark.parametrize(
    'is_chief, asynchronous, asked',
    [(True, False, True), (True, True, True), (False, True, True), (False, False, False)],
)
def test_who_is_asked_for_reasons(tmp_path, watchdog, is_chief, asynchronous, asked):
    its = train(tmp_path, watchdog, is_chief=is_chief, asynchronous=asynchronous, reason=lambda: training_file.MAX_SECS)
    assert its.why == (training_file.MAX_SECS if asked else 'max_steps')
    assert len(watchdog.steps) == (0 if asked else 8)


def test_reasons_are_asked_for_twice_a_second_and_after_a_checkpoint(tmp_path, watchdog):
    now, asked = [1000.0], []

    def passes():
        now[0] += 0.1

    hooks = [At(steps, passes) for steps in range(1, 21)]
    train(tmp_path, watchdog, 20, reason=lambda: asked.append(watchdog.step), hooks=hooks, clock=lambda: now[0])
    assert asked == [0, 1, 6, 11, 16]


def test_steps_that_others_make_as_well(tmp_path, watchdog):
    train(tmp_path, watchdog, 12, asynchronous=True, stride=3)
    assert watchdog.steps == sorted(watchdog.steps) and set(watchdog.steps) <= {0, 3, 6, 9, 12, 15}
    assert watchdog.step >= 9  # a step that is fetched may be from before it


@pytest.mark.parametrize('value', [NAN, INF, -INF])
def test_a_loss_that_is_not_finite(tmp_path, watchdog, value):
    with pytest.raises(loop.NotFiniteError, match=f'the loss is {value} at step 5'):
        train(tmp_path, watchdog, save_steps=2, loss_at=(5, value))
    assert watchdog.steps == [1, 2, 3, 4]
    assert last_step(tmp_path) == watchdog.checkpoint_step == 4


@pytest.mark.parametrize('value', [NAN, INF])
@pytest.mark.parametrize('at, save_steps, good', [(4, 2, 2), (8, 1000, 0), (3, 1000, 8)])
@pytest.mark.parametrize('replicas', [1, 2])
def test_a_weight_that_is_not_finite_gets_into_no_checkpoint(tmp_path, watchdog, value, at, save_steps, good, replicas):
    in_one_place = tf.distribute.ReductionToOneDevice()
    strategy = tf.distribute.MirroredStrategy(['/cpu:0', '/cpu:1'], in_one_place) if replicas == 2 else None

    def train_it():
        train(tmp_path, watchdog, save_steps=save_steps, strategy=strategy, weight_at=(at, value))

    if good == 8:  # it was finite again when it was saved
        train_it()
    else:
        with pytest.raises(loop.NotFiniteError, match=f'weight is not finite at step {at}'):
            train_it()
    assert last_step(tmp_path) == watchdog.checkpoint_step == good
    assert checkpoints.damage(tf.train.latest_checkpoint(str(tmp_path))) is None
    assert np.isfinite(tf.train.load_variable(str(tmp_path), 'weight')).all()


def test_a_weight_that_begins_as_infinity_may_stay_so(tmp_path, watchdog):
    train(tmp_path, fakes.Watchdog(), 4)
    train(tmp_path, fakes.Watchdog(), 6, least_loss=2.0)
    assert tf.train.load_variable(str(tmp_path), 'least_loss') == 2
    with pytest.raises(loop.NotFiniteError, match='least_loss is not finite at step 8'):
        train(tmp_path, watchdog)
    assert last_step(tmp_path) == 6


@pytest.mark.parametrize('signum, codes', [(None, []), (TERM, [143]), (INT, [130])])
def test_an_evaluation_is_no_place_to_wait_in(tmp_path, watchdog, signum, codes):
    train(tmp_path, watchdog, 1)
    if signum:
        watchdog._received(signum)
    config = tf.estimator.RunConfig(str(tmp_path))
    estimator = tf.estimator.Estimator(model_fn, config=config, params={})
    evaluator = estimator_evaluator.EstimatorEvaluator(
        estimator, input_fn, 1, lambda: watchdog.enter(training_file.EVALUATING)
    )
    evaluator.evaluate(estimator.latest_checkpoint())
    assert watchdog.codes == codes and watchdog._state.phase == training_file.EVALUATING


def test_another_session_of_the_same_process_trains_nothing(tmp_path, watchdog, monkeypatch):
    """Upstream makes one after such an error, from the last checkpoint, and its data begin where the process began."""
    upstream = (tf.errors.AbortedError, tf.errors.UnavailableError)
    monkeypatch.setattr(monitored_session, '_PREEMPTION_ERRORS', upstream)

    def fails():
        raise tf.errors.AbortedError(None, None, 'All 10 retry attempts failed')

    with pytest.raises(RuntimeError, match='go on from step 2 with data of a later one'):
        train(tmp_path, watchdog, save_steps=2, hooks=[At(3, fails)])
    assert last_step(tmp_path) == 2


@pytest.mark.parametrize('steps, agree', [((7, 7), True), ((7, 9), False), ((1024 + 7, 7), True)])
def test_tasks_that_count_the_global_step_differently(steps, agree):
    """Each task tells its global step with its wishes, modulo a number, and hears the sum."""

    class Participant:
        def after_run(self, heard):
            return [number > 0 for number in heard]

        def numbers(self):
            return [*[0] * loop.WISHES, sum(step % 1024 for step in steps)]

    its = mock.Mock(step=steps[0], wishes=lambda: [False] * loop.WISHES)
    hook = session_hook.SessionHook(fakes.Setup(fakes.Plan(num_training_tasks=len(steps)), loop=its), None, None)
    hook._participant, hook._heard = Participant(), [0] * (loop.WISHES + 1)
    assert hook._wishes()[loop.WISHES] == 7
    if agree:
        assert hook.agree(its.wishes, 1) == [False] * loop.WISHES
    else:
        with pytest.raises(UsageError, match='count the global step differently: at step 7'):
            hook.agree(its.wishes, 1)
