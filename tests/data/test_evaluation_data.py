"""data.evaluation_data: what tells evaluations on other data apart."""

import pytest

from estimator_trainer.data import evaluation_data
from estimator_trainer.evaluation.evaluation_journal import are_other_data
from tests import fakes


def described(eval_steps, count=None, examples="the job's own", batch=10, eval_strategy='none'):
    config = fakes.config(eval_steps=eval_steps, eval_batch_size=batch, eval_strategy=eval_strategy, num_replicas=2)
    return evaluation_data.described(examples, count, config)


@pytest.mark.parametrize(
    'before, now, others',
    [
        (described(None), described(None), False),
        (described(1), described(None), True),  # a first try with one batch
        (described(1), described(1, batch=20), True),
        (described(1), described(1, batch=5, eval_strategy='mirrored'), False),  # the same examples
        (described(None, examples='mnist'), described(None, examples='cifar10'), True),
        ('', described(None), False),  # earlier versions did not say it
    ],
)
def test_evaluations_on_other_data(before, now, others):
    assert are_other_data(before, now) == others


def test_no_more_examples_than_there_are():
    assert described(100, count=64) == "the job's own/100/64" and described(3, count=64) == "the job's own/3/30"
