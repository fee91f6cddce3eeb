"""A mend acts after upstream's own checks, and raises nothing that upstream would not."""

import types
from unittest import mock

import pytest
import tensorflow as tf

from estimator_trainer.compat.patches import early_stopping_hooks, evaluation_mends


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
