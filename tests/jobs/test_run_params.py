"""Epochs in steps: the same number wherever it is asked for, without a float's error. What a job is told."""

import decimal
import math
import random

import pytest

from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import micro_batches, run_params
from estimator_trainer.jobs.job import RUN_PARAMS
from estimator_trainer.jobs.run_params import RunParams


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
    assert run_params.steps(passes, examples, batch) == expected


def test_steps_and_finished_epochs_belong_together():
    chance = random.Random(1)
    for _ in range(3000):
        examples, batch, epoch = chance.randint(1, 5000), chance.randint(1, 600), chance.randint(1, 400)
        end = run_params.steps(epoch, examples, batch)
        assert (end - 1) * batch < epoch * examples <= end * batch
        params = params_of(examples, batch, max_steps=1)
        assert params.epochs_at(end - 1) < epoch <= params.epochs_at(end)


def test_a_number_with_a_point_means_what_it_is_printed_as():
    chance = random.Random(2)
    for _ in range(3000):
        passes = chance.randint(1, 99999) / 10 ** chance.randint(1, 4)
        examples, batch = chance.randint(1, 5000), chance.randint(1, 600)
        exact = decimal.Decimal(str(passes)) * examples
        end = run_params.steps(passes, examples, batch)
        assert (end - 1) * batch < exact <= end * batch


def params_of(examples, batch, max_steps=None, epochs=None, **more):
    end = run_params.last_step(max_steps, epochs, examples, batch)
    given = dict(job={'rate': 0.5}, batch_size=batch, num_replicas=1, initial_replicas=1, seed=3)
    return RunParams(**given, global_batch_size=batch, max_steps=end, num_examples=examples, **more)


@pytest.mark.parametrize('examples, batch', [(1000, 15), (1, 3), (7, 11), (60000, 96), (10**12 + 1, 4097)])
def test_epochs_of_a_run(examples, batch):
    params = params_of(examples, batch, epochs=3)
    assert params.max_steps == params.end_of_epoch(3) == math.ceil(decimal.Decimal(3 * examples) / batch)
    assert params.epochs_at(params.max_steps) >= 3 > params.epochs_at(params.max_steps - 1)
    assert params.as_dict()['steps_per_epoch'] == examples / batch


def test_a_run_without_a_known_number_of_examples_is_one_epoch():
    params = params_of(None, 32, max_steps=70)
    assert (params.max_steps, params.steps_per_epoch) == (70, 70)
    assert (params.end_of_epoch(1), params.epochs_at(69), params.epochs_at(70)) == (70, 0, 1)
    with pytest.raises(UsageError, match=r'--epochs=2: the job does not say .*use --max_steps'):
        params_of(None, 32, epochs=2)


def test_a_job_gets_its_own_params_and_those_of_the_run():
    params = params_of(1000, 15, epochs=2, start_step=7, image_shape=[28, 28, 1])
    assert params.as_dict() == {
        'rate': 0.5,
        'batch_size': 15,
        'num_replicas': 1,
        'initial_replicas': 1,
        'replicas_per_task': 1,
        'global_batch_size': 15,
        'max_steps': 134,
        'steps_per_epoch': 1000 / 15,
        'seed': 3,
        'start_step': 7,
        'position_shift': 0,
        'image_shape': (28, 28, 1),
    }
    assert set(params.as_dict()) == {'rate', *RUN_PARAMS}
    assert set(params_of(1000, 15, epochs=2).as_dict()) == {'rate', *RUN_PARAMS} - {'image_shape'}
    params.as_dict()['rate'] = 0.1  # a dict of its own for each caller
    assert params.as_dict()['rate'] == 0.5


def test_epochs_go_on_after_a_change_of_the_global_batch():
    """6 epochs of 1,000 examples: 50 steps of 64, the rest with 32."""
    params = params_of(1000, 32, max_steps=1, start_step=50, position_shift=50 * 64 - 50 * 32)
    assert params.epochs_at(50) == 3 and params.epochs_at(49) == 3  # 3,200 and 3,168 examples
    end = run_params.last_step(None, 6, 1000, 32, params.position_shift)
    assert end == params.end_of_epoch(6) == 50 + math.ceil((6000 - 3200) / 32)
    assert run_params.last_step(None, 1, 1000, 32, params.position_shift) <= 50  # nothing is left
    assert run_params.last_step(70, None, 1000, 32, params.position_shift) == 70


def test_each_caller_gets_lists_of_its_own():
    params = RunParams({'hidden': [64, 32]}, 8, 1, 1, 8, 100, None, 1)
    params.as_dict()['hidden'].append(16)
    assert params.as_dict()['hidden'] == [64, 32]


def test_to_an_input_fn_each_accumulated_batch_is_a_step():
    params = RunParams({}, 8, 4, 4, 32, 100, 320, 1, start_step=7, position_shift=3).as_dict()
    of_input = micro_batches.params_of_input(params, 2)
    assert (of_input['start_step'], of_input['max_steps'], of_input['steps_per_epoch']) == (14, 200, 20.0)
    assert (of_input['global_batch_size'], of_input['num_replicas'], of_input['batch_size']) == (16, 2, 8)
    kept = ('seed', 'position_shift', 'initial_replicas')
    assert [of_input[name] for name in kept] == [params[name] for name in kept]
    assert of_input['start_step'] * of_input['global_batch_size'] == params['start_step'] * params['global_batch_size']
