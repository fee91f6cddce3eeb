"""Runs that tests of inspect look at."""

import shutil

import pytest

from tests.tools.inspection import old_runs


@pytest.fixture(scope='session')
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp('made')
    old_runs.wide_and_deep(folder / 'run')
    return folder / 'run'


@pytest.fixture
def run(made, tmp_path):
    return shutil.copytree(made, tmp_path / 'run')
