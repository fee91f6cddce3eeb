"""data.files.dataset: what is recorded of files, and when two records are of the same."""

import pytest

from estimator_trainer.data.files import dataset

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
