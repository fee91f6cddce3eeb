import dataclasses
import json

import pytest

from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.errors import UsageError
from estimator_trainer.tools.sweep import sweep_plan as plans

PLAN = plans.SweepPlan('accuracy', 'max', 1, 5, ('rate:log:1e-4:1',), plans.trainer_flags(TrainerConfig(max_steps=10)))


def test_the_same_command_goes_on(tmp_path):
    plans.keep(PLAN, str(tmp_path))
    plans.keep(PLAN, str(tmp_path))
    other = TrainerConfig(max_steps=10, model_dir='elsewhere', progress='off', log_every_steps=7)
    plans.keep(dataclasses.replace(PLAN, trainer=plans.trainer_flags(other)), str(tmp_path))


def test_a_flag_that_an_earlier_version_did_not_have(tmp_path):
    trainer = {name: value for name, value in PLAN.trainer.items() if name != 'grace_secs'}
    plans.keep(dataclasses.replace(PLAN, trainer=trainer), str(tmp_path))
    plans.keep(PLAN, str(tmp_path))
    with pytest.raises(UsageError, match='grace_secs: 25 there, 9 now'):
        plans.keep(dataclasses.replace(PLAN, trainer={**trainer, 'grace_secs': 9}), str(tmp_path))


def test_other_flags_are_refused_with_both_values(tmp_path):
    plans.keep(PLAN, str(tmp_path))
    trainer = plans.trainer_flags(TrainerConfig(max_steps=20, param=('hidden=3',)))
    with pytest.raises(UsageError) as raised:
        plans.keep(dataclasses.replace(PLAN, metric='loss', param_space=('a:int:1:2',), trainer=trainer), str(tmp_path))
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
        plans.keep(PLAN, str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_plan_json_is_whole(tmp_path):
    plans.keep(PLAN, str(tmp_path))
    kept = json.loads((tmp_path / 'plan.json').read_text())
    assert kept['seed'] == 1 and kept['trainer']['max_steps'] == 10 and 'model_dir' not in kept['trainer']
