"""compat.patches.sync_training: the savers of synchronous tasks, and tasks whose data end.

And compat.patches.coordination_service: what TensorFlow's coordination service is told.
"""

import re
import types
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from estimator_trainer.compat.patches import coordination_service, sync_training
from estimator_trainer.errors import UsageError

v1 = tf.compat.v1


class Saver:
    def __init__(self, every_steps=None):
        self._timer, self._listeners = types.SimpleNamespace(_every_steps=every_steps), []


class Chief:
    """A participant that keeps what it says; `Worker` hears it."""

    def __init__(self):
        self.said = []

    def meet(self, session, wishes):
        self.said.append(wishes)
        return wishes


class Worker:
    def __init__(self, chief):
        self._left = list(chief.said)

    def meet(self, session, wishes):
        assert not any(wishes)
        return self._left.pop(0)


@pytest.mark.parametrize('count', [0, 1, 4, 14, 15, 16, 31])
def test_a_job_may_have_any_number_of_savers(count, monkeypatch):
    chief = sync_training.AgreedCheckpointSaverHook([Saver() for _ in range(count)], True, None)
    chief._participant, saved = Chief(), []
    assert chief._save(None, chief._savers, lambda one: saved.append(one) or one is chief._savers[-1]) == bool(count)
    assert saved == chief._savers
    worker, computed = sync_training.AgreedCheckpointSaverHook(range(count), False, None), []
    worker._participant = Worker(chief._participant)
    monkeypatch.setattr(sync_training.saver_hooks, 'values_of', computed.append)
    assert worker._save(mock.Mock(), [], None) == bool(count)
    assert computed == list(range(count)) and not worker._participant._left


@pytest.mark.parametrize(
    'every, divisor', [((1e3,), 1000), ((np.int64(6), 4.0), 2), ((None, 5), 5), ((float('inf'),), 0), ((), 0)]
)
def test_savers_may_save_every_1e3_steps(every, divisor):
    chief = sync_training.AgreedCheckpointSaverHook([Saver(steps) for steps in every], True, None)
    chief._participant = Chief()
    assert chief._hear_frequency(None) == divisor


def test_data_that_end_in_all_tasks(monkeypatch):
    waited = {}
    monkeypatch.setattr(coordination_service, 'wait_at_barrier', waited.__setitem__)
    sync_training.wait_for_the_end_of_all_data()
    sync_training.wait_for_the_end_of_all_data()  # a program that trains again; TensorFlow refuses a name of before
    assert list(waited.values()) == [120_000, 120_000]


def test_data_that_go_on_in_another_task(monkeypatch):
    def wait_at_barrier(name, timeout_ms):
        raise tf.errors.DeadlineExceededError(None, None, f'Barrier timed out: {name}')

    monkeypatch.setattr(coordination_service, 'wait_at_barrier', wait_at_barrier)
    with pytest.raises(UsageError, match='have not, 120 s later.*let the input_fn repeat its data, or give each task'):
        sync_training.wait_for_the_end_of_all_data()


def test_without_the_service_nobody_is_asked(monkeypatch):
    """TensorFlow has it with eager execution only, which programs of TensorFlow 1 turn off."""

    def wait_at_barrier(name, timeout_ms):
        raise tf.errors.FailedPreconditionError(None, None, 'Coordination service is not enabled.')

    monkeypatch.setattr(coordination_service, 'wait_at_barrier', wait_at_barrier)
    sync_training.wait_for_the_end_of_all_data()


def test_a_lost_task_is_reported_as_such(monkeypatch):
    def wait_at_barrier(name, timeout_ms):
        raise tf.errors.UnavailableError(None, None, 'a task is lost')

    monkeypatch.setattr(coordination_service, 'wait_at_barrier', wait_at_barrier)
    with pytest.raises(tf.errors.UnavailableError):
        sync_training.wait_for_the_end_of_all_data()


def test_heartbeats_are_put_off_for_what_is_made_meanwhile(monkeypatch):
    now = context.Context()
    monkeypatch.setattr(context, 'context', lambda: now)
    with coordination_service.heartbeats_put_off():
        now.configure_coordination_service(service_type='standalone', service_leader='/job:worker/task:0')
    config = now.coordination_service
    assert (config.service_type, config.service_leader) == ('standalone', '/job:worker/task:0')
    assert config.heartbeat_timeout_in_ms > 24 * 3600 * 1000
    now.configure_coordination_service(service_type='standalone')
    assert now.coordination_service.heartbeat_timeout_in_ms == 0


def test_a_saver_of_another_folder_takes_nothing_from_the_model_dir(tmp_path, monkeypatch):
    worker = types.SimpleNamespace(is_chief=True)
    context_of_task = types.SimpleNamespace(get_current_worker_context=lambda: worker)
    monkeypatch.setattr(sync_training, 'distribute_coordinator_context', context_of_task)
    monkeypatch.setattr(sync_training.session_mends, 'raise_every_error', lambda: None)
    folder, backup = str(tmp_path / 'model'), str(tmp_path / 'backup')
    config = tf.estimator.RunConfig(folder, save_checkpoints_steps=2)
    estimator = types.SimpleNamespace(_config=config, _model_dir=folder, _session_config=None)
    with tf.Graph().as_default():
        step = v1.train.get_or_create_global_step()
        spec = tf.estimator.EstimatorSpec('train', loss=tf.constant(0.0), train_op=v1.assign_add(step, 1).op)
        hooks = [v1.train.CheckpointSaverHook(backup, save_steps=4), v1.train.StopAtStepHook(last_step=6)]
        sync_training.train(estimator, spec, hooks, None)
    steps = [
        re.findall(r'model.ckpt-(\d+)"', (tmp_path / each / 'checkpoint').read_text()) for each in (folder, backup)
    ]
    assert [each[0] for each in steps] == ['6', '6']
    # One Saver keeps five checkpoints, those of both folders together, as upstream's does.
    kept = sorted(path.name for path in (tmp_path / 'model').glob('*.index'))
    assert kept == [f'model.ckpt-{number}.index' for number in (2, 4, 6)]


def test_a_saver_of_the_folder_is_the_only_one(tmp_path):
    saver = v1.train.CheckpointSaverHook(f'{tmp_path}/', save_steps=1)
    assert sync_training.saves_into([saver], str(tmp_path))
    assert not sync_training.saves_into([saver], f'{tmp_path}/model') and not sync_training.saves_into([], '')


def test_methods_of_a_saver_that_nobody_calls_have_a_warning(tmp_path, caplog):
    class Keeps(v1.train.CheckpointSaverHook):
        def after_run(self, run_context, run_values):
            pass

        def end(self, session):
            pass

    class Saves(v1.train.CheckpointSaverHook):
        def _save(self, session, step):
            pass

    hooks = [kind(str(tmp_path), save_steps=1) for kind in (Keeps, Saves, v1.train.CheckpointSaverHook)]
    other = v1.train.StopAtStepHook(1)
    assert sync_training.without_savers([hooks[0], other], hooks[1:]) == ([other], [], hooks)
    (line,) = caplog.messages
    assert line.startswith('WARNING: after_run and end of the CheckpointSaverHook Keeps: not called under Multi')
