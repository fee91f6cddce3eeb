"""What the params of a job become, and which are refused."""

import pytest

from estimator_trainer import jobs
from estimator_trainer.jobs import JobError
from estimator_trainer.jobs.job import RUN_PARAMS


def test_the_params_that_the_trainer_sets():
    assert set(RUN_PARAMS) == {
        'batch_size',
        'num_replicas',
        'initial_replicas',
        'replicas_per_task',
        'global_batch_size',
        'max_steps',
        'steps_per_epoch',
        'seed',
        'start_step',
        'position_shift',
        'image_shape',
    }


DEFAULTS = {'layers': 2, 'rate': 0.5, 'name': 'x', 'bias': False, 'norm': True}


@pytest.mark.parametrize(
    'override, name, value',
    [
        ('layers=3', 'layers', 3),
        ('layers=-3', 'layers', -3),
        ('rate=3', 'rate', 3.0),
        ('rate=1e-3', 'rate', 0.001),
        ('name=', 'name', ''),
        ('name=a=b,c', 'name', 'a=b,c'),
        *((f'bias={yes}', 'bias', True) for yes in ('true', 'True', 'TRUE', '1')),
        *((f'norm={no}', 'norm', False) for no in ('false', 'False', 'FALSE', '0')),
    ],
)
def test_typed_params(override, name, value):
    params = jobs.typed_params(DEFAULTS, [override])
    assert params == {**DEFAULTS, name: value}
    assert type(params[name]) is type(DEFAULTS[name])


def test_typed_params_takes_the_last_and_leaves_the_defaults():
    defaults = dict(DEFAULTS)
    assert jobs.typed_params(defaults, ['layers=3', 'name=y', 'layers=4']) == {**DEFAULTS, 'layers': 4, 'name': 'y'}
    assert defaults == DEFAULTS
    assert jobs.typed_params(defaults, []) is not defaults


@pytest.mark.parametrize(
    'override, parts',
    [
        ('layers', ['name=value']),
        ('layers=2.0', ['an int', '2', "'2.0'"]),
        ('layers=', ['an int', "''"]),
        ('rate=fast', ['a float', '0.5', "'fast'"]),
        ('bias=yes', ['a bool', 'False', "'yes'"]),
        ('bias=2', ['a bool', "'2'"]),
        ('layer=3', ["'layer'", "did you mean 'layers'?", 'bias, layers, name, norm, rate']),
        ('zzz=3', ["'zzz'. It has"]),
        ('=3', ["''"]),
    ],
)
def test_typed_params_refused(override, parts):
    with pytest.raises(JobError) as caught:
        jobs.typed_params(DEFAULTS, ['name=ok', override])
    assert f'--param={override}:' in str(caught.value)
    assert all(part in str(caught.value) for part in parts), caught.value


def test_a_list_is_a_list_of_its_own():
    defaults = {'hidden': (64, 32), 'rates': [0.5, 1]}
    params = jobs.typed_params(defaults, ['rates=1,2'])
    assert params == {'hidden': [64, 32], 'rates': [1.0, 2.0]}
    params['hidden'].append(16)
    assert jobs.typed_params(defaults, [])['hidden'] == [64, 32]


def test_typed_params_of_a_job_without():
    with pytest.raises(JobError, match='It has: none'):
        jobs.typed_params({}, ['a=1'])


def checked(*overrides):
    job = jobs.load('mnist')
    return job.check(jobs.typed_params(job.params, overrides))


@pytest.mark.parametrize(
    'overrides',
    [
        *(['optimizer=' + name] for name in ('sgd', 'momentum', 'adam')),
        *(['schedule=' + name] for name in ('constant', 'step', 'cosine')),
        ['schedule=step', 'decay_epochs=2.5'],
        ['schedule=step', 'decay_epochs=1,2,3'],
        ['schedule=cosine', 'decay_epochs=never'],  # read by step only
        ['warmup_steps=0', 'shift_pixels=0'],
        ['warmup_steps=9', 'shift_pixels=2'],
        ['turn_degrees=15', 'zoom=0.1'],
        ['filters=16,32'],
    ],
)
def test_params_that_work(overrides):
    checked(*overrides)


@pytest.mark.parametrize(
    'override, cure',
    [
        ('optimizer=adm', 'sgd, momentum, adam'),
        ('schedule=linear', 'constant, step, cosine'),
        ('decay_epochs=7,3', 'ascending'),
        ('decay_epochs=3,x', 'ascending'),
        ('decay_epochs=', 'ascending'),
        ('warmup_steps=-1', '0 or more'),
        ('shift_pixels=-1', '0 or more'),
        ('turn_degrees=-1.0', '0 or more'),
        ('zoom=-0.1', '0 or more'),
        ('zoom=1.0', 'less than 1'),
        ('filters=', 'such as 32,64'),
        ('filters=16,0', 'such as 32,64'),
    ],
)
def test_params_that_cannot_work(override, cure):
    with pytest.raises(ValueError) as caught:
        checked('schedule=step', override)
    assert f'--param={override}:' in str(caught.value) and cure in str(caught.value)


@pytest.mark.parametrize(
    'override', ['classes=0', 'learning_rate=nan', 'l2=nan', 'decay_epochs=nan', 'decay_epochs=3,nan']
)
def test_params_that_cannot_work_and_pass(override):
    with pytest.raises(ValueError):
        checked('schedule=step', override)
