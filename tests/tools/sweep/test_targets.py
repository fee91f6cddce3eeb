"""What --param_space says, and what its names are, with the job's params given."""

import json
import sys

import pytest

from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import param_values
from estimator_trainer.tools.sweep import targets

PARAMS = {'learning_rate': 0.1, 'hidden': 32, 'optimizer': 'sgd', 'layers': [64, 32], 'rank': 4, 'shuffle': 'no'}


@pytest.fixture(autouse=True)
def job_with_params(monkeypatch):
    monkeypatch.setattr(targets, 'facts_of_job', lambda *given: (PARAMS, ('loss', 'min')))


@pytest.mark.parametrize(
    'text, kind, values',
    [
        ('rate:log:1e-4:1e-1', float, (1e-4, 1e-1)),
        ('rate:uniform:0:0.5', float, (0.0, 0.5)),
        ('layers:int:1:4', int, (1, 4)),
        ('hidden:log:16:256', int, (16, 256)),
        ('hidden:choice:16,32,64', int, (16, 32, 64)),
        ('rate:choice:0.1,1', float, (0.1, 1.0)),
        ('optimizer:choice:sgd, adam', str, ('sgd', 'adam')),
        ('sizes:choice:64,32|128,64', str, ('64,32', '128,64')),
        ('deterministic:choice:true,False', bool, (True, False)),
        ('rate:uniform:-1:1', float, (-1.0, 1.0)),
    ],
)
def test_values_have_the_type_of_what_they_are_for(text, kind, values):
    (space,) = targets.parse([text])
    parameter = targets.typed(space, kind)
    assert (parameter.name, parameter.values) == (text.partition(':')[0], values)
    assert [type(value) for value in parameter.values] == [kind] * len(values)
    assert space.text == text


@pytest.mark.parametrize(
    'given, said',
    [
        (['rate'], 'give NAME:KIND:VALUES, such as learning_rate:log'),
        (['rate:logarithm:1:2'], 'give NAME:KIND:VALUES'),
        ([':log:1:2'], 'give NAME:KIND:VALUES'),
        (['rate:log:1'], 'give the lowest and the highest value'),
        (['rate:log:1:2:3'], 'give the lowest and the highest value'),
        (['rate:log:one:2'], 'give the lowest and the highest value'),
        (['rate:log:2:1'], 'lower than the second'),
        (['rate:uniform:0:inf'], 'lower than the second'),
        (['rate:log:0:1'], 'bounds over 0'),
        (['rate:choice:1'], 'two or more different values'),
        (['rate:choice:1,1'], 'two or more different values'),
        (['rate:choice:1,,2'], 'two or more different values'),
        (['rate:log:1:2', 'rate:choice:1,2'], 'given twice'),
    ],
)
def test_what_is_no_space(given, said):
    with pytest.raises(UsageError, match=said) as raised:
        targets.parse(given)
    assert f'--param_space={given[0]}: ' in str(raised.value)


@pytest.mark.parametrize(
    'text, kind, said',
    [
        ('optimizer:log:1:2', str, 'use optimizer:choice:A,B'),
        ('deterministic:choice:yes,no', bool, 'true or false'),
        ('hidden:choice:16,32.5', int, 'a whole number'),
        ('hidden:log:0.5:2', int, 'a whole number'),
        ('rate:choice:1,x', float, 'a number'),
        ('rate:choice:1,1.0', float, 'two of its values are the same'),
    ],
)
def test_values_of_another_type(text, kind, said):
    (space,) = targets.parse([text])
    with pytest.raises(UsageError, match=said):
        targets.typed(space, kind)


@pytest.mark.parametrize(
    'value, other', [(0.1 + 0.2, 7), (1e-7, 7), (3, 7), (True, False), ('adam', 'sgd'), (1e300, 7)]
)
def test_a_value_survives_being_a_flag(value, other):
    (space,) = targets.parse([f'x:choice:{param_values.text_of(value)},{param_values.text_of(other)}'])
    assert targets.typed(space, type(value)).values[0] == value


def find(tmp_path, *given, flags=('--max_steps=10',)):
    return targets.find(targets.parse(given), [f'--model_dir={tmp_path}', *flags])


def test_params_and_flags(tmp_path):
    found = find(tmp_path, 'learning_rate:log:1e-4:1', 'batch_size:choice:16,32', 'hidden:int:1:9')
    assert [type(parameter.values[0]) for parameter in found.parameters] == [float, int, int]
    assert found.flags({'learning_rate': 0.001, 'batch_size': 16, 'hidden': 3}) == [
        '--param=learning_rate=0.001',
        '--batch_size=16',
        '--param=hidden=3',
    ]


@pytest.mark.parametrize('flags', [('--max_steps=10',), ('--epochs=2',)])
@pytest.mark.parametrize('epochs', [(), ('epochs:choice:1,2',)])
def test_a_param_of_the_job_may_have_the_name_of_a_flag(tmp_path, flags, epochs):
    """`rank` is a flag that all trials share, and `some` no value of --shuffle."""
    flags = () if epochs else flags
    found = find(tmp_path, 'rank:choice:2,8', 'shuffle:choice:some,none', *epochs, flags=flags)
    assert [parameter.is_param for parameter in found.parameters] == [True, True, *(False for _ in epochs)]
    assert found.flags({'rank': 2, 'shuffle': 'some'}) == ['--param=rank=2', '--param=shuffle=some']
    assert (found.config.rank, found.config.shuffle) == (TrainerConfig.rank, TrainerConfig.shuffle)


def test_the_process_that_loads_the_job_leaves_out_flags_with_the_names_of_its_params(tmp_path, monkeypatch, capsys):
    job = (
        'from estimator_trainer.jobs import Job\njob = Job(model_fn=print, input_fn=print, params={"shuffle": "no"})\n'
    )
    (tmp_path / 'shuffling_job.py').write_text(job)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, 'path', list(sys.path))
    monkeypatch.setattr(sys, 'dont_write_bytecode', True)
    varied = {'shuffle': '--shuffle=some', 'max_steps': '--max_steps=1'}
    flags = ['--job=shuffling_job:job', f'--model_dir={tmp_path}/run']
    try:
        assert targets._check_job(['shuffle=some'], varied, flags) == 0
    finally:
        sys.modules.pop('shuffling_job', None)
    assert json.loads(capsys.readouterr().out)['params'] == {'shuffle': 'no'}


def test_lists_are_chosen_as_they_are_written(tmp_path):
    found = find(tmp_path, 'layers:choice:64,32|128')
    assert found.parameters[0].values == ('64,32', '128')
    assert found.flags({'layers': '64,32'}) == ['--param=layers=64,32']


def test_what_all_trials_share_does_not_depend_on_what_differs(tmp_path):
    found = find(tmp_path, 'epochs:choice:1,2', flags=('--batch_size=8',))
    assert (found.config.epochs, found.config.batch_size, found.config.deterministic) == (None, 8, True)


def test_the_defaults_of_trials_give_way(tmp_path):
    flags = tmp_path / 'flags'
    flags.write_text('--nodeterministic\n--max_steps=3\n')
    config = find(tmp_path, 'hidden:int:1:9', flags=(f'--flagfile={flags}', '--eval_throttle_secs=7')).config
    assert (config.deterministic, config.eval_throttle_secs, config.max_steps) == (False, 7, 3)


def test_flag_files_are_read_as_by_the_trainer(tmp_path):
    flags = tmp_path / 'flags'
    flags.write_text('--batch_size 7\n--max_steps\n3\n--param name=a b\n--nodeterministic\n')
    found = find(tmp_path, 'hidden:int:1:9', flags=('--seed', '5', f'--flagfile={flags}'))
    config = found.config
    assert (config.batch_size, config.max_steps, config.param, config.seed) == (7, 3, ('name=a b',), 5)
    assert found.trainer_flags[3:7] == ('--batch_size=7', '--max_steps', '3', '--param=name=a b')


@pytest.mark.parametrize(
    'given, said',
    [
        ('learning_rat:log:1e-4:1', r'learning_rat is no flag .* \(did you mean learning_rate\?\)'),
        ('zzz:log:1e-4:1', 'Its params: hidden, layers, learning_rate, optimizer, rank, shuffle'),
        ('model_dir:choice:a,b', '--model_dir is the same in all trials'),
        ('export:choice:best,final', '--export is the same in all trials'),
        ('epochs:choice:-1,2', '--epochs=-1: '),
        ('roles:choice:a,b', '--roles is the same in all trials'),
        ('stop_metric:choice:a,b', '--stop_metric is the same'),
        ('optimizer:log:1:2', 'optimizer is not a number'),
        ('layers:int:1:2', 'layers is not a number'),
        ('batch_size:choice:16,0', '--batch_size=0: at least 1 is needed'),
        ('loop:choice:estimator,keras', 'keras'),
    ],
)
def test_what_cannot_differ(tmp_path, given, said):
    with pytest.raises(UsageError, match=said):
        find(tmp_path, given)


@pytest.mark.parametrize(
    'flags, said',
    [
        (('--max_stps=3',), 'did you mean --max_steps'),
        ((), 'Neither --max_steps'),
        (('--flagfile=/no',), '--flagfile=/no: No such file'),
    ],
)
def test_flags_of_the_trainer_are_judged_first(tmp_path, flags, said):
    with pytest.raises(UsageError, match=said):
        find(tmp_path, 'hidden:int:1:9', flags=flags)
