"""Arguments of Python as flags: each value as the command line has it, and wrong ones in one sentence."""

import pathlib

import pytest

from estimator_trainer.api import call_flags
from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.errors import UsageError
from estimator_trainer.supervisor.options import ClusterFlags


@pytest.mark.parametrize(
    'given, words',
    [
        ({'max_steps': 5}, ['--max_steps=5']),
        ({'max_steps': None}, []),
        ({'epochs': 0.5}, ['--epochs=0.5']),
        ({'deterministic': True, 'sync_ps': False}, ['--deterministic=true', '--sync_ps=false']),
        ({'model_dir': pathlib.Path('a b')}, ['--model_dir=a b']),
        ({'export': ['best', 'final']}, ['--export=best,final']),
        ({'export': 'none'}, ['--export=none']),
        ({'train_files': ['a', pathlib.Path('b')]}, ['--train_files=a,b']),
        ({'track': ['wandb', 'mlflow:x']}, ['--track=wandb', '--track=mlflow:x']),
        ({'track': 'wandb'}, ['--track=wandb']),
        ({'steps_per_call': 5}, ['--steps_per_call=5']),
    ],
)
def test_words(given, words):
    assert call_flags.words(TrainerConfig, given) == words


def test_flagfiles_are_read(tmp_path):
    path = tmp_path / 'some.flags'
    path.write_text('--max_stps=3')
    with pytest.raises(UsageError, match='--max_stps .*some.flags, line 1.*: no such flag'):
        call_flags.words(TrainerConfig, {'flagfile': path})


@pytest.mark.parametrize(
    'given, said',
    [
        ({'max_stps': 5}, r'max_stps=5: there is no such flag \(did you mean max_steps=…\?\)\.'),
        ({'max_steps': 0}, '--max_steps=0: at least 1 is needed'),
        ({'max_steps': True}, 'max_steps=True: is no switch'),
        ({'max_steps': 'many'}, '--max_steps=many: a whole number is needed'),
        ({'max_steps': [1]}, r'max_steps=\[1\]: one value is needed'),
        ({'deterministic': 'maybe'}, '--deterministic=maybe: true or false is needed'),
        ({'loop': 'keras'}, '--loop=keras: one of'),
        ({'seed': {}}, r'seed=\{\}: give a number'),
        ({'train_files': ['a,b', 'c']}, "train_files: 'a,b' has a comma"),
    ],
)
def test_wrong_ones(given, said):
    with pytest.raises(UsageError, match=said):
        call_flags.words(TrainerConfig, given)


def test_what_else_a_name_may_mean():
    with pytest.raises(UsageError, match=r'rate=1: there is no such flag\. It is a param\.'):
        call_flags.words(ClusterFlags, {'rate': 1}, {'rate': '. It is a param'})


@pytest.mark.parametrize(
    'params, words',
    [
        (None, []),
        ({'rate': 0.1, 'bias': True, 'name': 'a=b'}, ['--param=rate=0.1', '--param=bias=true', '--param=name=a=b']),
        ({'hidden': [64, 32]}, ['--param=hidden=64,32']),
        ({'hidden': []}, ['--param=hidden=']),
        ({'names': ('a', 'b')}, ['--param=names=a,b']),
    ],
)
def test_params(params, words):
    assert call_flags.of_params(params) == words


@pytest.mark.parametrize(
    'params, said',
    [
        (['rate=1'], r"params=\['rate=1'\]: give a dict"),
        ({'rate': None}, 'params: rate is a NoneType'),
        ({'rate': float('nan')}, 'params: rate is nan; NaN is not equal to itself'),
        ({'rate': [1, 'a']}, r"params: rate is \[1, 'a'\]"),
        ({'names': ['a,b']}, 'params: names .* has no comma'),
    ],
)
def test_wrong_params(params, said):
    with pytest.raises(UsageError, match=said):
        call_flags.of_params(params)


def test_params_of_numpy():
    numpy = pytest.importorskip('numpy')
    given = {'hidden': numpy.array([3, 4]), 'rate': numpy.float64(0.5), 'rates': list(numpy.array([0.5, 1.0]))}
    wanted = ['--param=hidden=3,4', '--param=rate=0.5', '--param=rates=0.5,1.0', '--param=names=a,b']
    assert call_flags.of_params({**given, 'names': tuple(numpy.array(['a', 'b']))}) == wanted
