"""The Savers that a model_fn makes: compat.patches.strategy_mends.build_savers_later, and saver_hooks.numbers_kept."""

import pytest
import tensorflow as tf

from estimator_trainer.compat import agreement
from estimator_trainer.compat.patches import saver_hooks, strategy_mends

v1 = tf.compat.v1


@pytest.fixture
def strategy(monkeypatch):
    """That of several tasks, as far as Savers see."""
    monkeypatch.setattr(v1.train.Saver, '__init__', v1.train.Saver.__init__)  # put back after the test
    monkeypatch.setattr(
        agreement, 'has_several_tasks', lambda strategy: isinstance(strategy, tf.distribute.MirroredStrategy)
    )
    strategy_mends.build_savers_later(None)
    return tf.distribute.MirroredStrategy(['/cpu:0'])


@pytest.mark.parametrize('averaged', [False, True])
@pytest.mark.parametrize('has_list', [False, True])
def test_a_saver_of_averages_is_built_outside_of_the_replica(strategy, averaged, has_list):
    made = {}

    def model_fn():
        of_average = {'synchronization': tf.VariableSynchronization.ON_READ, 'aggregation': tf.VariableAggregation.MEAN}
        variable = v1.get_variable('mean', [], trainable=False, **(of_average if averaged else {}))
        made['saver'] = v1.train.Saver([variable] if has_list else None, max_to_keep=3)

    with tf.Graph().as_default():
        with strategy.scope():
            strategy.extended.call_for_each_replica(model_fn)
        assert (made['saver'].saver_def is None) == averaged
        scaffold = v1.train.Scaffold(saver=made['saver']).finalize()
        assert scaffold.saver.saver_def.max_to_keep == 3


def test_other_savers_are_built_at_once(strategy):
    with tf.Graph().as_default():
        variable = v1.get_variable('mean', [])
        assert v1.train.Saver([variable]).saver_def and v1.train.Saver(defer_build=True).saver_def is None


def test_the_numbers_of_checkpoints_that_the_savers_of_a_job_keep(tmp_path):
    with tf.Graph().as_default():
        v1.train.create_global_step()
        hooks = [
            v1.train.CheckpointSaverHook(str(tmp_path), save_steps=1, saver=v1.train.Saver(max_to_keep=None)),
            v1.train.CheckpointSaverHook(str(tmp_path), save_steps=1, scaffold=v1.train.Scaffold()),
            v1.train.SessionRunHook(),
        ]
        assert saver_hooks.numbers_kept(v1.train.Scaffold(saver=v1.train.Saver(max_to_keep=3)), hooks) == {0, 3}
        assert saver_hooks.numbers_kept(v1.train.Scaffold(), hooks[1:]) == set()
