"""training.messages: what is said of a run that goes on, or whose data have ended."""

import logging
import types

import pytest

from estimator_trainer.jobs.run_params import RunParams
from estimator_trainer.training import messages

PARAMS = RunParams(
    job={},
    batch_size=64,
    num_replicas=1,
    initial_replicas=1,
    global_batch_size=64,
    max_steps=188,
    num_examples=3000,
    seed=1,
    start_step=47,
)
PLAN = types.SimpleNamespace(trains=True, is_chief=True)


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.INFO, 'estimator_trainer')
    return lambda: [record.getMessage() for record in caplog.records]


def test_data_that_end_early(said):
    messages.say_end_of_data(47, PARAMS)
    (warning,) = said()
    assert 'at step 47 of 188: 3,008 of 12,032 examples' in warning and 'repeat()' in warning


def test_a_run_that_was_stopped_early(said):
    messages.say_start(PLAN, None, PARAMS, can_serve=True, stopped='loss (lower is better) has not improved')
    assert said() == [
        'stopped early at step 47 of 188: loss (lower is better) has not improved',
        'to go on, give a higher --stop_patience or another rule, or leave --stop_metric out',
    ]


def test_a_run_that_goes_on(said):
    messages.say_start(PLAN, None, PARAMS, can_serve=True)
    assert said() == ['resumes at step 47 of 188']
