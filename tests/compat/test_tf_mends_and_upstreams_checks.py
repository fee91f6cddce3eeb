"""A mend acts after upstream's own checks, and raises nothing that upstream would not."""

import types
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.compat.patches import early_stopping_hooks, evaluation_mends, sync_training


class Estimator:
    def __init__(self, model_dir):
        self.config = types.SimpleNamespace(model_dir=model_dir, is_chief=True)


def test_early_stopping_is_refused_by_upstream_first():
    upstream = types.SimpleNamespace(
        make_early_stopping_hook=mock.Mock(side_effect=ValueError('upstream')),
        estimator_lib=types.SimpleNamespace(Estimator=Estimator),
    )
    original = upstream.make_early_stopping_hook
    early_stopping_hooks.mend(upstream)
    make = upstream.make_early_stopping_hook
    in_cluster = Estimator('/model')
    in_cluster.config.train_distribute, in_cluster.config.cluster_spec = mock.Mock(), None
    not_one = mock.Mock()
    for estimator, secs, steps in ((in_cluster, 60, 10), (in_cluster, 0, 10), (not_one, 60, None)):
        with pytest.raises(ValueError, match='upstream'):
            make(estimator, bool, secs, steps)
    with pytest.raises(ValueError, match='every_secs'):  # of TensorFlow's timer, which upstream's hook has
        make(in_cluster, bool, None, None)
    assert original.call_count == 3 and make(in_cluster, bool)


def test_best_exporter_takes_a_folder_that_cannot_be_listed_for_none(monkeypatch):
    monkeypatch.setattr(tf.io.gfile, 'isdir', lambda path: True)
    denied = tf.errors.PermissionDeniedError(None, None, 'no')
    monkeypatch.setattr(tf.io.gfile, 'listdir', mock.Mock(side_effect=denied))
    assert not evaluation_mends._has_exports('/exports')


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
