import pytest


@pytest.fixture(scope='session')
def data_dir(tmp_path_factory):
    """Where the data sets of the whole test run are prepared, once."""
    return tmp_path_factory.mktemp('datasets')
