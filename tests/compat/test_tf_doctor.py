"""doctor, as a command of its own."""

import sys
import textwrap

import launch
import pytest

from estimator_trainer import compat

pytestmark = pytest.mark.slow
RESTORED = not compat.has_estimators()


def write(folder, name, text):
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def test_doctor(tmp_path):
    finished = launch.run([sys.executable, '-m', 'estimator_trainer', 'doctor'], timeout=300)
    assert finished.code == 0, finished.output
    lines = finished.output.splitlines()
    assert lines[1].startswith('tensorflow 2.')
    assert sum(line.startswith('supplied: ') for line in lines) == (4 if RESTORED else 0)
    assert sum(line.startswith('mended: ') for line in lines) >= 8
    assert sum(line.startswith('--model_dir ') for line in lines) == 3
    assert any(line.startswith('files of TensorFlow: gs:// works') for line in lines)
    assert lines[-1].startswith('works: import tensorflow')


def test_doctor_without_tf_keras_says_what_to_install(tmp_path):
    """Somewhere tf-keras (2.16+) or tensorflow-estimator (2.15) is missing."""
    name = 'tf-keras' if RESTORED else 'tensorflow-estimator'
    write(
        tmp_path,
        'sitecustomize.py',
        f"""
        import importlib.metadata as metadata
        version = metadata.version
        def missing(name):
            if name in ({name!r}, {name + '-nightly'!r}):
                raise metadata.PackageNotFoundError(name)
            return version(name)
        metadata.version = missing
        """,
    )
    finished = launch.run(
        [sys.executable, '-m', 'estimator_trainer', 'doctor'], timeout=300, PYTHONPATH=f'{tmp_path}:{launch.REPOSITORY}'
    )
    assert finished.code == 1
    assert f'problem: {name} is not installed: pip install ' in finished.output
    assert f'"{name}' in finished.output.splitlines()[-1]  # of a pre-release its nightly build


def test_doctor_names_two_tensorflows(tmp_path):
    folder = tmp_path / 'tensorflow_macos-2.15.0.dist-info'
    folder.mkdir()
    (folder / 'METADATA').write_text('Name: tensorflow-macos\nVersion: 2.15.0\n')
    command = [sys.executable, '-m', 'estimator_trainer', 'doctor']
    finished = launch.run(command, timeout=300, PYTHONPATH=f'{launch.REPOSITORY}:{tmp_path}')
    assert finished.code == 1
    assert 'problem: tensorflow and tensorflow-macos write over each other' in finished.output
