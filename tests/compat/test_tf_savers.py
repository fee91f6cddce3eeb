"""The Savers that a model_fn makes: compat.patches.strategy_mends.build_savers_later, and saver_hooks.numbers_kept."""

import functools

import pytest
import tensorflow as tf

from estimator_trainer.compat.patches import saver_hooks, strategy_mends

v1 = tf.compat.v1


@pytest.fixture
def strategy(monkeypatch):
    for patched, name in ((v1.train.Saver, '__init__'), (v1.train.Scaffold, 'finalize')):
        monkeypatch.setattr(patched, name, getattr(patched, name))  # put back after the test
    strategy_mends.build_savers_later(None)
    return tf.distribute.MirroredStrategy(['/cpu:0'])


def _save(saver, path, step_context):
    return saver.save(step_context.session, str(path))


@pytest.mark.parametrize('averaged', [False, True])
@pytest.mark.parametrize('given', [None, list, tuple, set])
def test_a_saver_of_averages_is_built_outside_of_the_replica(strategy, averaged, given, tmp_path):
    made = []

    def model_fn():
        of_average = {'synchronization': tf.VariableSynchronization.ON_READ, 'aggregation': tf.VariableAggregation.MEAN}
        variable = v1.get_variable('mean', [], trainable=False, **(of_average if averaged else {}))
        other = v1.get_variable('other', [])
        made.append(v1.train.Saver(given and given([variable]), max_to_keep=3))
        made.append(v1.train.Saver([other, variable]))  # such as one that an init_fn restores by
        v1.get_variable('slot', [])  # the optimizer's come after the Saver

    with tf.Graph().as_default():
        with strategy.scope():
            strategy.extended.call_for_each_replica(model_fn)
        assert {saver.saver_def is None for saver in made} == {averaged}
        scaffold = v1.train.Scaffold(saver=made[0])
        with v1.train.MonitoredSession(v1.train.ChiefSessionCreator(scaffold)) as session:
            write = [functools.partial(_save, saver, tmp_path / f'{number}') for number, saver in enumerate(made)]
            paths = [session.run_step_fn(each) for each in write]
        assert made[0].saver_def.max_to_keep == 3
    names = [sorted(name for name, _ in tf.train.list_variables(path)) for path in paths]
    assert names == [['mean'] if given else ['mean', 'other'], ['mean', 'other']]


def test_other_savers_are_built_at_once(strategy):
    with tf.Graph().as_default():
        variable = v1.get_variable('mean', [])
        assert v1.train.Saver([variable]).saver_def and v1.train.Saver(defer_build=True).saver_def is None


def test_the_numbers_of_checkpoints_that_the_savers_of_a_job_keep(tmp_path):
    def hook(**how):
        return v1.train.CheckpointSaverHook(str(tmp_path), save_steps=1, **how)

    with tf.Graph().as_default():
        v1.train.create_global_step()
        three, four = (v1.train.Scaffold(saver=v1.train.Saver(max_to_keep=number)) for number in (3, 4))
        assert saver_hooks.numbers_kept(three, [v1.train.SessionRunHook()]) == {3}
        every = hook(saver=v1.train.Saver(max_to_keep=None))
        assert saver_hooks.numbers_kept(three, [every, hook(scaffold=four)]) == {0, 4}
        assert saver_hooks.numbers_kept(three, [hook(scaffold=v1.train.Scaffold())]) == set()
        assert saver_hooks.numbers_kept(v1.train.Scaffold(saver=tf.train.Checkpoint()), []) == set()
        saver_def = v1.train.Saver(max_to_keep=6).as_saver_def()
        assert saver_hooks.numbers_kept(v1.train.Scaffold(saver=v1.train.Saver(saver_def=saver_def)), []) == {6}
        v1.add_to_collection(v1.GraphKeys.SAVERS, v1.train.Saver(max_to_keep=2))
        assert saver_hooks.numbers_kept(v1.train.Scaffold(), []) == {2}
