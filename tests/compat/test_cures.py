"""compat.cures: what a program is told after the traceback of an exception that has ended it."""

import sys

import pytest

from estimator_trainer.compat import cures

NO_CHIEF = ValueError('If "cluster" is set in TF_CONFIG, it must have one "chief" node.')


@pytest.mark.parametrize(
    'tf1, strategy',
    [
        (False, 'tf.distribute.MultiWorkerMirroredStrategy()'),
        (True, 'tf.distribute.experimental.MultiWorkerMirroredStrategy()'),
    ],
)
def test_workers_without_a_strategy(tf1, strategy):
    said = cures.cure_of(NO_CHIEF, tf1)
    assert f'RunConfig(train_distribute={strategy})' in said and '--ps=1' in said


@pytest.mark.parametrize('tf1', [False, True])
def test_horovod_that_is_not_installed(tf1):
    error = ModuleNotFoundError("No module named 'horovod'", name='horovod')
    assert 'compat run --horovod PROGRAM' in cures.cure_of(error, tf1)
    assert cures.cure_of(ModuleNotFoundError("No module named 'other'", name='other'), tf1) is None


def test_training_without_train_and_evaluate_in_a_cluster():
    error = ValueError('Estimator.train cannot run in a cluster whose RunConfig has a strategy: call something else.')
    assert 'tf.estimator.train_and_evaluate alone' in cures.cure_of(error, False)


@pytest.mark.parametrize('error', [ValueError('another'), KeyError('chief'), RuntimeError(str(NO_CHIEF))])
def test_of_other_errors_nothing_is_said(error):
    assert cures.cure_of(error, False) is None


def test_the_line_follows_the_traceback(monkeypatch, capsys):
    monkeypatch.setattr(sys, 'excepthook', sys.__excepthook__)
    cures.install(tf1=False)
    sys.excepthook(ValueError, NO_CHIEF, None)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith('ValueError: If "cluster"') and lines[1].startswith(
        'compat: the Estimator has no strategy'
    )
