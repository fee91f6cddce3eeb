"""compat.patches.sync_training: synchronous tasks whose data end."""

import pytest
import tensorflow as tf

from estimator_trainer.compat.patches import coordination_service, sync_training
from estimator_trainer.errors import UsageError


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


def test_a_lost_task_is_reported_as_such(monkeypatch):
    def wait_at_barrier(name, timeout_ms):
        raise tf.errors.UnavailableError(None, None, 'a task is lost')

    monkeypatch.setattr(coordination_service, 'wait_at_barrier', wait_at_barrier)
    with pytest.raises(tf.errors.UnavailableError):
        sync_training.wait_for_the_end_of_all_data()
