import importlib.metadata

import pytest

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
