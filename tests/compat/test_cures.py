"""compat.cures: what a program is told after the traceback of an exception that has ended it."""

import importlib
import sys
import types

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


def test_estimators_that_are_not_installed():
    owner = types.ModuleType('tensorflow._api.v2.compat.v1')
    error = AttributeError("module 'tensorflow' has no attribute 'estimator'", name='estimator', obj=owner)
    for tf1 in (False, True):
        assert 'pip install "tensorflow-estimator==2.15.*"' in cures.cure_of(error, tf1)


@pytest.mark.parametrize('version, says', [('3.15.1', True), ('2.15.0', False)])
def test_keras_3_in_a_program_for_keras_2(monkeypatch, tmp_path, version, says):
    (tmp_path / 'keras').mkdir()
    (tmp_path / 'keras/__init__.py').write_text(f"__version__ = '{version}'\ndef fails():\n    raise TypeError('no')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, 'keras', raising=False)
    keras = importlib.import_module('keras')
    monkeypatch.setitem(sys.modules, 'keras', keras)
    with pytest.raises(TypeError) as raised:
        keras.fails()
    cure = cures.cure_of(raised.value, False)
    assert ('write `from tensorflow import keras`' in (cure or '')) == says
    model = type('Sequential', (), {'__module__': 'keras.src.models'})()
    cure = cures.cure_of(AttributeError('no', name='_is_graph_network', obj=model), True)
    assert ('Keras 3' in (cure or '')) == says
    assert cures.cure_of(TypeError('of another'), False) is None


def test_an_installed_package_of_tensorflow_1(monkeypatch, tmp_path):
    tensorflow = types.ModuleType('tensorflow')
    tensorflow.__file__ = '/somewhere/tensorflow/__init__.py'
    tensorflow.data = types.SimpleNamespace(Dataset=type('Dataset', (), {}))
    tensorflow.compat = types.SimpleNamespace(v1=types.SimpleNamespace(app=None))
    monkeypatch.setitem(sys.modules, 'tensorflow', tensorflow)
    (tmp_path / 'site-packages/old_bert').mkdir(parents=True)
    (tmp_path / 'site-packages/old_bert/__init__.py').write_text('import tensorflow\ndef use():\n    tensorflow.app\n')
    monkeypatch.syspath_prepend(tmp_path / 'site-packages')
    old_bert = importlib.import_module('old_bert')
    with pytest.raises(AttributeError) as raised:
        old_bert.use()
    assert '--tf1-packages=old_bert' in cures.cure_of(raised.value, True)
    with pytest.raises(AttributeError) as raised:
        tensorflow.app  # noqa: B018
    assert cures.cure_of(raised.value, True) is None


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
