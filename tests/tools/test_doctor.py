"""doctor: what it says of the packages that are installed. tests/compat runs the command."""

import importlib.metadata
import importlib.util

import pytest

from estimator_trainer import compat
from estimator_trainer.compat.tf1_names import contrib
from estimator_trainer.tools import doctor

OTHERS = {'tensorflow-estimator': '2.15.0', 'protobuf': '6.33.6', 'tensorboard': '2.21.0'}


class Distribution:
    def __init__(self, name):
        self.metadata = {'Name': name}


@pytest.fixture
def examined(monkeypatch, capsys):
    """{package: version} -> (exit code, lines)."""

    def examine(**packages):
        versions = {**OTHERS, **{name.replace('_', '-'): version for name, version in packages.items()}}

        def version(name):
            if name not in versions:
                raise importlib.metadata.PackageNotFoundError(name)
            return versions[name]

        monkeypatch.setattr(importlib.metadata, 'version', version)
        monkeypatch.setattr(importlib.metadata, 'distributions', lambda: map(Distribution, versions))
        monkeypatch.setattr(doctor, 'import_problems', lambda: [])
        monkeypatch.setattr(doctor, 'remote_files_here', lambda: [])
        compat.tensorflow_version.cache_clear()
        try:
            return doctor.examine(), capsys.readouterr().out.splitlines()
        finally:
            compat.tensorflow_version.cache_clear()

    return examine


def problems(lines):
    return [line.removeprefix('problem: ') for line in lines if line.startswith('problem: ')]


def test_a_release(examined):
    code, lines = examined(tensorflow='2.21.0', tf_keras='2.21.0')
    assert (code, problems(lines)) == (0, [])
    assert any(line.startswith('seeds: ') and '--stable-seeds PROGRAM' in line for line in lines)
    assert {'tensorflow 2.21.0 without tf.estimator', 'tf-keras 2.21.0'} < {*lines}
    assert not any('pre-release' in line or 'newer' in line for line in lines)


@pytest.mark.parametrize('name, version', [('tensorflow', '2.22.0rc0'), ('tf_nightly', '2.22.0.dev20260905')])
def test_a_pre_release_with_the_nightly_build_of_keras_2(examined, name, version):
    code, lines = examined(**{name: version}, tf_keras_nightly='2.22.0.dev2026101709')
    assert (code, problems(lines)) == (0, [])
    assert f'tensorflow {version} without tf.estimator' in lines
    assert 'tf-keras-nightly 2.22.0.dev2026101709' in lines
    assert any(line.startswith('this TensorFlow is a pre-release: ') for line in lines)


def test_a_pre_release_with_the_keras_2_of_another(examined):
    code, lines = examined(tensorflow='2.22.0rc0', tf_keras='2.21.0')
    cure = 'pip uninstall tf-keras, then pip install --pre --no-deps "tf-keras-nightly==2.22.*"'
    assert (code, problems(lines)) == (1, [f'tf-keras 2.21.0 does not fit: {cure}'])


def test_without_keras_2(examined):
    assert problems(examined(tensorflow='2.21.0')[1]) == ['tf-keras is not installed: pip install "tf-keras~=2.21.0"']
    (said,) = problems(examined(tensorflow='2.22.0rc0')[1])
    assert said == 'tf-keras is not installed: pip install --pre --no-deps "tf-keras-nightly==2.22.*"'


def test_two_keras_2(examined):
    code, lines = examined(tensorflow='2.22.0rc0', tf_keras_nightly='2.22.0.dev1', tf_keras='2.22.0')
    assert code == 1
    assert problems(lines)[0].startswith('tf-keras and tf-keras-nightly write over each other')


def test_a_release_that_nobody_has_run(examined):
    code, lines = examined(tensorflow='2.99.0', tf_keras='2.99.0')
    assert code == 0 and any(line.startswith('this TensorFlow is newer than 2.') for line in lines)


def test_the_versions_of_a_run_have_the_names_of_releases(examined, monkeypatch):
    examined(tf_nightly='2.23.0.dev1', tf_keras_nightly='2.23.0.dev2')
    found = compat.versions()
    assert (found['tensorflow'], found['tf-keras']) == ('2.23.0.dev1', '2.23.0.dev2')


@pytest.fixture
def said(monkeypatch, capsys, tmp_path):
    """(source of a program, flags) -> (exit code, lines), with a report of three lines on what is here."""

    def examine():
        print('tensorflow 2.21.0 without tf.estimator\nmended: this and that\nworks: import tensorflow 1.0 s')
        return 0

    def run(source, *flags):
        (tmp_path / 'train.py').write_text(source)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(doctor, 'examine', examine)
        code = doctor.main(['train.py', *flags])
        return code, capsys.readouterr().out.splitlines()

    return run


OLD = 'import tensorflow as tf\nslim = tf.contrib.slim\ntf.contrib.layers.fully_connected\ntf.app.run()\n'


def test_the_answer_on_a_program_comes_first(said):
    code, lines = said('import tensorflow as tf\ntf.estimator.Estimator\n')
    assert code == 0 and lines == [
        'program: train.py uses no names of TensorFlow 1: python -m estimator_trainer.compat run train.py',
        'works: import tensorflow 1.0 s',
        '--verbose lists what is supplied and mended here, and what cannot work',
    ]
    lines = said(OLD)[1]
    assert lines[0].endswith('is written for TensorFlow 1: python -m estimator_trainer.compat run --tf1 train.py')
    assert 'mended: this and that' not in lines


@pytest.mark.parametrize('is_there, code', [(True, 0), (False, 1)])
def test_a_package_that_the_program_lacks(said, monkeypatch, is_there, code):
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: is_there or None)
    ends, lines = said('import tensorflow as tf\nslim = tf.contrib.slim\nslim.conv2d\n')
    assert ends == code and any(line.startswith('problem: train.py:') for line in lines) == (not is_there)


def test_verbose_adds_the_rest(said):
    lines = said(OLD, '--verbose')[1]
    assert lines[0].startswith('program: train.py') and 'mended: this and that' in lines


@pytest.mark.parametrize('is_there', [True, False])
def test_a_missing_tf_slim_is_named(said, monkeypatch, is_there):
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: name == 'tf_slim' and is_there or None)
    lines = said(OLD)[1]
    found = [line for line in lines if 'tf-slim' in line]
    assert (found == []) == is_there
    if found:
        assert found[0].startswith('problem: train.py:2: tf.contrib.slim is in the package tf-slim, which is not inst')
        assert 'pip install tf-slim' in found[0]


IN_SLIM = ('slim', 'slim.arg_scope', 'layers', 'layers.l2_regularizer', 'layers.python.layers.layers')
NOT_IN_SLIM = ('tpu.RunConfig', 'training.HParams', 'data.Dataset', 'nothing')


@pytest.mark.parametrize('name', [*IN_SLIM, *NOT_IN_SLIM])
def test_which_names_are_in_tf_slim(name):
    assert contrib.is_in_slim(name) == (name in IN_SLIM)
