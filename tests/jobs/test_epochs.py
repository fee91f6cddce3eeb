"""Epochs in steps: the same number wherever it is asked for, without a float's error."""

import decimal
import math
import random

import pytest

from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import epochs


@pytest.mark.parametrize(
    'passes, examples, batch, expected',
    [
        (15, 1000, 15, 1000),  # 1,001 in floats: 15 * (1000 / 15) is a little more than 1,000
        (15.0, 1000, 15, 1000),
        (1, 1000, 15, 67),
        (0.1, 1000, 10, 10),  # the float 0.1 is a little more than a tenth
        (0.3, 1000, 10, 30),
        (1e-05, 1000, 10, 1),
        (2.5, 10, 4, 7),
        (3, 7, 7, 3),
        (49, 1, 49, 1),
        (3, 10**12 + 1, 3, 10**12 + 1),
        (1e22, 3, 1, 3 * 10**22),
    ],
)
def test_steps(passes, examples, batch, expected):
    assert epochs.steps(passes, examples, batch) == expected


def test_steps_and_finished_epochs_belong_together():
    chance = random.Random(1)
    for _ in range(3000):
        examples, batch, epoch = chance.randint(1, 5000), chance.randint(1, 600), chance.randint(1, 400)
        end = epochs.steps(epoch, examples, batch)
        assert (end - 1) * batch < epoch * examples <= end * batch
        assert epochs.finished(end - 1, examples, batch) < epoch <= epochs.finished(end, examples, batch)


def test_a_number_with_a_point_means_what_it_is_printed_as():
    chance = random.Random(2)
    for _ in range(3000):
        passes = chance.randint(1, 99999) / 10 ** chance.randint(1, 4)
        examples, batch = chance.randint(1, 5000), chance.randint(1, 600)
        exact = decimal.Decimal(str(passes)) * examples
        end = epochs.steps(passes, examples, batch)
        assert (end - 1) * batch < exact <= end * batch


@pytest.mark.parametrize('examples, batch', [(1000, 15), (1, 3), (7, 11), (60000, 96), (10**12 + 1, 4097)])
def test_a_run_knows_its_examples_again(examples, batch):
    params = {'global_batch_size': batch, **epochs.run_params(None, 3, examples, batch)}
    assert epochs.examples_of(params) == examples
    assert params['max_steps'] == math.ceil(decimal.Decimal(3 * examples) / batch)


def test_a_run_without_a_known_number_of_examples_is_one_epoch():
    assert epochs.run_params(70, None, None, 32) == {'max_steps': 70, 'steps_per_epoch': 70}
    assert epochs.examples_of({'global_batch_size': 32, 'steps_per_epoch': 70}) == 70 * 32
    with pytest.raises(UsageError, match=r'--epochs=2: the job does not say .*use --max_steps'):
        epochs.run_params(None, 2, None, 32)
