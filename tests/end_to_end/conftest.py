import pytest

from tests.chaos.case import Undisturbed


@pytest.fixture(scope='session')
def data_dir(tmp_path_factory):
    """Where the data sets of the whole test run are prepared, once."""
    return tmp_path_factory.mktemp('datasets')


@pytest.fixture(scope='session')
def undisturbed(tmp_path_factory):
    """Runs of the chaos cases' job in which nothing goes wrong, each made once."""
    return Undisturbed(tmp_path_factory.getbasetemp())
