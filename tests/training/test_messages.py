"""training.messages: what is said of a run that goes on, or whose data have ended."""

import dataclasses
import json
import logging

import pytest

from estimator_trainer.jobs.run_params import RunParams
from estimator_trainer.training import messages
from tests import fakes

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
PLAN = fakes.Plan()


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.INFO, 'estimator_trainer')
    return lambda: [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    'why, words',
    [
        (
            'end_of_data',
            ['WARNING', 'the training data ended at step 57 of 188, after at most 3,648 examples', 'repeat()'],
        ),
        ('step_stands', ['WARNING', 'ended after 10 batches', 'none of them has moved the global step', 'minimize()']),
        ('hook', ['a hook of the job has stopped the training at step 57 of 188']),
        ('listener', ['a listener of the checkpoints of the job has stopped the training at step 57 of 188']),
    ],
)
def test_why_training_has_ended_early(said, why, words):
    messages.say_why_early(why, 57, PARAMS, batches=10)
    (line,) = said()
    assert all(word in line for word in words)


@pytest.mark.parametrize(
    'config, checkpoint, says',
    [
        ({'versions': {'tensorflow': '2.15.1'}}, True, True),
        ({'versions': {'tensorflow': '2.21.0'}}, True, False),
        ({'versions': {'tensorflow': '2.15.1'}}, False, False),  # nothing was trained
        ({'versions': 'of another program'}, True, False),
        ({}, True, False),
    ],
)
def test_another_tensorflow_is_named(said, tmp_path, config, checkpoint, says):
    (tmp_path / 'config.json').write_text(json.dumps(config))
    if checkpoint:
        (tmp_path / 'checkpoint').write_text('model_checkpoint_path: "model.ckpt-7"\n')
        (tmp_path / 'model.ckpt-7.index').touch()
        (tmp_path / 'model.ckpt-7.data-00000-of-00001').touch()
    messages.say_other_tensorflow(str(tmp_path), '2.21.0')
    expected = 'goes on with TensorFlow 2.21.0, after 2.15.1: from here on results may be rounded in another way'
    assert said() == ([expected] if says else [])


def test_asynchronous_tasks_that_have_trained_nothing(said):
    messages.say_why_early('end_of_data', 0, PARAMS, batches=0)
    (line,) = said()
    assert line.startswith('WARNING: nothing was trained: the training data have ended before the first step')


@pytest.mark.parametrize('why', ['max_steps', 'early_stopping', 'max_secs'])
def test_an_end_that_was_asked_for_needs_no_words(said, why):
    messages.say_why_early(why, 188, PARAMS, batches=10)
    assert said() == []


def test_a_run_that_was_stopped_early(said):
    messages.say_start(PLAN, None, PARAMS, can_serve=True, stopped='loss (lower is better) has not improved')
    assert said() == [
        'stopped early at step 47 of 188: loss (lower is better) has not improved',
        'to go on, give a higher --stop_patience or another rule, or leave --stop_metric out',
    ]


def test_fewer_examples_than_a_step_takes(said):
    messages.say_start(PLAN, None, dataclasses.replace(PARAMS, num_examples=10), can_serve=True)
    assert said()[0].startswith('WARNING: there are 10 training examples, and a step takes 64')


def test_a_run_that_goes_on(said):
    messages.say_start(PLAN, None, PARAMS, can_serve=True)
    assert said() == ['resumes at step 47 of 188']


def test_a_saver_of_the_job_that_keeps_another_number_is_named(said):
    messages.say_kept([5, 3, 3, 0], 5)
    assert said() == [
        "the job's own Saver keeps all checkpoints (max_to_keep), and not the newest 5 (--keep_checkpoints)",
        "the job's own Saver keeps the newest 3 checkpoints (max_to_keep), and not the newest 5 (--keep_checkpoints)",
    ]
