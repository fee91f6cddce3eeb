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


@pytest.mark.parametrize(
    'flags, said',
    [
        ({}, 'd/all'),
        ({'batch_size': 64}, 'd/all'),
        ({'eval_steps': 10, 'batch_size': 64}, 'd/10/640'),
        ({'eval_steps': 10, 'batch_size': 32}, 'd/10/320'),
        ({'eval_steps': 10, 'batch_size': 32, 'eval_batch_size': 64}, 'd/10/640'),
        ({'eval_steps': 10, 'batch_size': 32, 'eval_strategy': 'mirrored', 'num_replicas': 2}, 'd/10/640'),
        ({'eval_steps': 10, 'batch_size': 32, 'eval_strategy': 'none', 'num_replicas': 2}, 'd/10/320'),
        ({'eval_steps': 10, 'eval_batch_size': 1024}, 'd/10/1000'),
    ],
)
def test_an_evaluation_is_described_by_the_number_of_its_examples(flags, said):
    assert evaluation_data.described('d', 1000, fakes.config(**flags)) == said
