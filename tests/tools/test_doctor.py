"""doctor: what it says of the packages that are installed. tests/compat runs the command."""

import importlib.metadata

import pytest

from estimator_trainer import compat
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
        monkeypatch.setattr(doctor, '_import', lambda: [])
        monkeypatch.setattr(doctor, '_remote_files', lambda: [])
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
