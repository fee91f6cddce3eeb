"""evaluation_journal.EvaluationProgress with a clock of its own: what is told of an evaluation, and when."""

import logging
import math

import pytest

from estimator_trainer.evaluation.evaluation_journal import EvaluationProgress
from tests import fakes


def told(caplog, batches, secs_each, first_secs=0, **about):
    """The messages of one evaluation."""
    caplog.set_level(logging.INFO)
    clock = fakes.Clock(now=100.0)
    progress = EvaluationProgress(clock=clock, **about)
    progress.begins('runs/model.ckpt-400')
    clock.now += first_secs
    for _ in range(batches):
        clock.now += secs_each
        progress.batch()
    return [record.getMessage() for record in caplog.records]


def test_a_short_one(caplog):
    assert told(caplog, 30, 0.01) == ['evaluates model.ckpt-400']


def test_a_long_one(caplog):
    said = told(caplog, 100, 1, steps=1000)
    assert said[1:] == [
        f'evaluates: {batches} of 1,000 batches after {secs}'
        for batches, secs in ((10, '10s'), (30, '30s'), (70, '1m10s'))
    ]


def test_one_long_batch(caplog):
    assert told(caplog, 1, 20)[1:] == ['evaluates: 1 batch after 20s']


@pytest.mark.parametrize(
    'batches, secs_each, about',
    [
        (61, 1, {}),  # a minute without an end
        (2001, 0, {'batch_size': 10, 'train_examples': 1000}),  # far more than an epoch
    ],
)
def test_data_that_may_never_end(caplog, batches, secs_each, about):
    warnings = [text for text in told(caplog, batches, secs_each, **about) if text.startswith('WARNING')]
    assert len(warnings) == 1 and 'repeat()' in warnings[0] and '--eval_steps' in warnings[0]


@pytest.mark.parametrize('batches', [1, 2])
def test_a_slow_start_says_nothing_of_the_end(caplog, batches):
    assert told(caplog, batches, 5, first_secs=90)[1:] == ['evaluates: 1 batch after 1m35s']


@pytest.mark.parametrize('about', [{'ends': True}, {'steps': 10**6}])
def test_data_that_end(caplog, about):
    assert not [text for text in told(caplog, 3000, 1, train_examples=10, **about) if text.startswith('WARNING')]


def test_no_metric_is_a_number_where_there_was_no_batch(caplog):
    results = {'loss': 0.0, 'accuracy': 0.0, 'global_step': 5}
    progress = EvaluationProgress()
    progress.begins('model.ckpt-5')
    assert progress.is_empty
    checked = progress.checked(results)
    assert math.isnan(checked['loss']) and math.isnan(checked['accuracy']) and checked['global_step'] == 5
    assert "no batch when mode is 'eval'" in caplog.text
    progress.batch()
    assert progress.checked(results) is results
    caplog.clear()
    of_command = EvaluationProgress(warns_of_none=False)  # which ends with this sentence
    of_command.begins('model.ckpt-5')
    assert math.isnan(of_command.checked(results)['loss']) and 'no batch' not in caplog.text
