"""What is around the training of a task does not change how it ends."""

import pytest

from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.monitoring import report_page, task_monitors


def interrupted(*args, **more):
    raise KeyboardInterrupt


def train(tmp_path, body):
    with task_monitors.monitored(TrainerConfig(model_dir=str(tmp_path)), 'trainer', True, True) as ends:
        return ends(body())


@pytest.mark.parametrize('where', ['last', '__exit__'])
@pytest.mark.parametrize('code', [0, 70])
def test_ctrl_c_after_the_end_does_not_change_the_code(tmp_path, monkeypatch, where, code):
    monkeypatch.setattr(report_page, 'is_on', lambda *args: True)
    monkeypatch.setattr(report_page.Pages, where, interrupted)
    assert train(tmp_path, lambda: code) == code


def test_ctrl_c_before_it_does(tmp_path, monkeypatch):
    monkeypatch.setattr(report_page, 'is_on', lambda *args: False)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, interrupted)
