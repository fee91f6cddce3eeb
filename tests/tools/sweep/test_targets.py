"""What the names of --param_space are, with the job's params given."""

import pytest

from estimator_trainer.errors import UsageError
from estimator_trainer.tools.sweep import space as spaces
from estimator_trainer.tools.sweep import targets

PARAMS = {'learning_rate': 0.1, 'hidden': 32, 'optimizer': 'sgd', 'layers': [64, 32]}


@pytest.fixture(autouse=True)
def job_with_params(monkeypatch):
    monkeypatch.setattr(targets, '_facts_of_job', lambda texts, flags: (PARAMS, ('loss', 'min')))


def find(tmp_path, *given, flags=('--max_steps=10',)):
    return targets.find(spaces.parse(given), [f'--model_dir={tmp_path}', *flags])


def test_params_and_flags(tmp_path):
    found = find(tmp_path, 'learning_rate:log:1e-4:1', 'batch_size:choice:16,32', 'hidden:int:1:9')
    assert [parameter.type for parameter in found.parameters] == [float, int, int]
    assert found.flags({'learning_rate': 0.001, 'batch_size': 16, 'hidden': 3}) == [
        '--param=learning_rate=0.001',
        '--batch_size=16',
        '--param=hidden=3',
    ]


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


@pytest.mark.parametrize(
    'given, said',
    [
        ('learning_rat:log:1e-4:1', r'learning_rat is no flag .* \(did you mean learning_rate\?\)'),
        ('zzz:log:1e-4:1', 'Its params: hidden, layers, learning_rate, optimizer'),
        ('model_dir:choice:a,b', '--model_dir is the same in all trials'),
        ('export:choice:best,final', '--export is the same in all trials'),
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
