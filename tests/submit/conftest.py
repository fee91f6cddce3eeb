import importlib.metadata
import sys

import launch
import pytest

from tests.chaos.case import Undisturbed
from tests.submit import hosts

NEWEST = (2, 21)


@pytest.fixture(scope='session')
def newest_tensorflow():
    """Real engines are run once: what they add does not depend on TensorFlow's version."""
    version = importlib.metadata.version('tensorflow')
    if tuple(map(int, version.split('.')[:2])) < NEWEST:
        pytest.skip(f'engines are run on TensorFlow {".".join(map(str, NEWEST))} only; this is {version}')


@pytest.fixture(scope='session')
def can_have_hosts(newest_tensorflow):
    problem = hosts.problem()
    if problem:
        pytest.skip(problem)


@pytest.fixture(scope='session')
def data_dir(tmp_path_factory):
    """Where mnist_5k is prepared: a task of a cluster would take its time to."""
    folder = tmp_path_factory.mktemp('datasets')
    script = 'import sys; from estimator_trainer.data import sources; sources.load("mnist_5k", sys.argv[1])'
    launch.checked(launch.run([sys.executable, '-c', script, folder]))
    return folder


@pytest.fixture(scope='session')
def undisturbed(tmp_path_factory):
    return Undisturbed(tmp_path_factory.mktemp('undisturbed'))
