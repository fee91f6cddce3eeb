"""Checkpoints of a run, saved once for all tests, and a copy of them for each; and the warnings of a test."""

import logging
import shutil

import pytest


@pytest.fixture(scope='session')
def saved(tmp_path_factory):
    """A model_dir with checkpoints of STEPS, as Estimator leaves it; and `no_step`, without a step."""
    from tests.run_dir import saved_checkpoints  # imports TensorFlow

    folder = tmp_path_factory.mktemp('saved')
    saved_checkpoints.save(folder)
    return folder


@pytest.fixture
def model_dir(saved, tmp_path):
    from tests.run_dir import saved_checkpoints

    path = shutil.copytree(saved, tmp_path / 'model')
    saved_checkpoints.name(path, saved_checkpoints.STEPS[-1])
    return path


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.WARNING, 'estimator_trainer')
    return lambda: [record.getMessage() for record in caplog.records]
