"""What a sweep is. Its trials are in test_trial_runner.py."""

import dataclasses
import json

import pytest

from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.errors import UsageError

study = pytest.importorskip('estimator_trainer.tools.sweep.study', reason='needs Optuna', exc_type=ImportError)

PLAN = study.SweepPlan('accuracy', 'max', 1, 5, ('rate:log:1e-4:1',), study.trainer_flags(TrainerConfig(max_steps=10)))


def test_the_same_command_is_not_refused(tmp_path):
    study.keep(PLAN, str(tmp_path))
    study.keep(PLAN, str(tmp_path))
    other = TrainerConfig(max_steps=10, model_dir='elsewhere', progress='off', log_every_steps=7)
    study.keep(dataclasses.replace(PLAN, trainer=study.trainer_flags(other)), str(tmp_path))


def test_a_flag_that_an_earlier_version_did_not_have(tmp_path):
    trainer = {name: value for name, value in PLAN.trainer.items() if name != 'grace_secs'}
    study.keep(dataclasses.replace(PLAN, trainer=trainer), str(tmp_path))
    study.keep(PLAN, str(tmp_path))
    with pytest.raises(UsageError, match='grace_secs: 25 there, 9 now'):
        study.keep(dataclasses.replace(PLAN, trainer={**trainer, 'grace_secs': 9}), str(tmp_path))


def test_other_flags_are_refused_with_both_values(tmp_path):
    study.keep(PLAN, str(tmp_path))
    trainer = study.trainer_flags(TrainerConfig(max_steps=20, param=('hidden=3',)))
    with pytest.raises(UsageError) as raised:
        study.keep(dataclasses.replace(PLAN, metric='loss', param_space=('a:int:1:2',), trainer=trainer), str(tmp_path))
    assert "metric: 'accuracy' there, 'loss' now" in str(raised.value)
    assert "param_space: ['rate:log:1e-4:1'] there, ['a:int:1:2'] now" in str(raised.value)
    assert 'max_steps: 10 there, 20 now' in str(raised.value)
    assert "param: [] there, ['hidden=3'] now" in str(raised.value)


@pytest.mark.parametrize(
    'name, content',
    [('config.json', '{}'), ('plan.json', 'no json'), ('study.db', 'mine'), ('sweep.json', '{"mine": 1}')],
)
def test_a_folder_of_something_else(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(UsageError, match='name another folder'):
        study.keep(PLAN, str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_plan_json_is_whole(tmp_path):
    study.keep(PLAN, str(tmp_path))
    kept = json.loads((tmp_path / 'plan.json').read_text())
    assert kept['seed'] == 1 and kept['trainer']['max_steps'] == 10 and 'model_dir' not in kept['trainer']
