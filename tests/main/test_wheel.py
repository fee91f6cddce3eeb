"""The trainer as `pip install` puts it, without a checkout: the wheel has every file, and commands find theirs."""

import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

from tests.end_to_end import launch

SOURCES = ('setup.py', 'pyproject.toml', 'README.md', 'LICENSE', 'estimator_trainer', 'tf_config')


@pytest.fixture(scope='module')
def wheel(tmp_path_factory):
    tree, out = tmp_path_factory.mktemp('tree'), tmp_path_factory.mktemp('wheel')
    for name in SOURCES:
        source = launch.REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns('__pycache__'))
        else:
            shutil.copy(source, tree / name)
    build = [sys.executable, '-m', 'pip', 'wheel', '-q', '--no-deps', '--no-build-isolation', '-w', out, '.']
    subprocess.run(build, cwd=tree, check=True, timeout=300)
    (made,) = out.iterdir()
    return made


@pytest.fixture(scope='module')
def run(wheel, tmp_path_factory):
    """run(*words) in an empty folder: the program `estimator-trainer` of the installed wheel -> its output."""
    installed, folder = tmp_path_factory.mktemp('installed'), tmp_path_factory.mktemp('empty')
    install = ['pip', 'install', '-q', '--no-deps', '--no-index', f'--target={installed}', str(wheel)]
    subprocess.run([sys.executable, '-m', *install], check=True, timeout=300)

    def run(*words):
        done = launch.run([installed / 'bin/estimator-trainer', *words], cwd=folder, PYTHONPATH=str(installed))
        assert done.code == 0, done.output
        return done.output

    run.folder = folder
    return run


def test_every_file_of_the_packages_is_in_the_wheel(wheel):
    sources = {
        str(path.relative_to(launch.REPOSITORY))
        for package in ('estimator_trainer', 'tf_config')
        for path in (launch.REPOSITORY / package).rglob('*')
        if path.is_file() and '__pycache__' not in path.parts
    }
    assert sources <= set(zipfile.ZipFile(wheel).namelist())


@pytest.mark.parametrize(
    ('words', 'part'),
    [
        ('--flagfile=mnist_5k --model_dir=run --dry_run', 'shift_pixels'),
        ('cluster --workers=2 -- --flagfile=configs/mnist_5k.flags --model_dir=run --dry_run', 'shift_pixels'),
        ('submit slurm render deploy/mnist_two_workers.yaml', '--flagfile=configs/mnist_5k.flags'),
    ],
)
def test_commands_of_the_readme(run, words, part):
    assert part in run(*words.split())
    assert os.listdir(run.folder) == []


def test_trains(run):
    said = run('train', '--job=mnist', '--dataset=mnist_5k', '--max_steps=20', '--model_dir=run')
    assert 'done at step 20: accuracy' in said
    assert pathlib.Path(run.folder, 'run/export').is_dir()
    shutil.rmtree(run.folder / 'run')
