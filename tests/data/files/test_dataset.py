"""data.files.dataset: what is recorded of files, and when two records are of the same."""

import pytest

from estimator_trainer.data.files import dataset
from tests import fakes

CONTENTS = {'files': 1, 'examples': 2, 'digest': 'a', 'shuffle': 'blocks', 'windows': 2}


@pytest.mark.parametrize(
    'one, other, names',
    [
        ({}, {'units': {'t': 'timestamp[us]', 'n': ''}, 'blocks': 'x'}, set()),  # an earlier version recorded neither
        ({'units': {'t': 'timestamp[us]'}}, {'units': {'t': 'timestamp[us]', 'n': ''}}, set()),
        ({'units': {'t': ''}}, {'units': {'t': 'timestamp[us]'}}, {'units'}),
        ({'blocks': 'x'}, {'blocks': 'y'}, dataset.OF_WINDOWS - {'windows'}),
        ({'blocks': 'x', 'windows': 3}, {'blocks': 'y'}, dataset.OF_WINDOWS),
        ({'digest': 'b'}, {'blocks': 'y'}, {'digest'}),
        ({'blocks': 'x'}, {'shuffle': 'none'}, {'blocks', 'shuffle'}),
    ],
)
def test_what_differs_between_two_records(one, other, names):
    assert dataset.difference({**CONTENTS, **one}, {**CONTENTS, **other}) == names


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
    assert dataset._evaluation_data('d', 1000, fakes.config(**flags)) == said
