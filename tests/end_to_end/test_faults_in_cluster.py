"""Faults under run_local_cluster.sh. `python -m tests.chaos` has many more of them."""

import json

import pytest

from tests.chaos import files, stopping
from tests.chaos.faults import EVALUATING, SAVING, TRAINING, Fault
from tests.chaos.stage import Stage


def test_three_kills_change_nothing(tmp_path, undisturbed):
    """kill -9 of worker 1 in a step, of the chief within a checkpoint, of the evaluator at the very end."""
    faults = [
        Fault(at='worker:1', moment=TRAINING, step=47),
        Fault(at='worker:0', moment=SAVING, step=80),
        Fault(at='evaluator:0', moment=EVALUATING, step=100),
    ]
    with Stage(tmp_path / 'case', *faults) as stage:
        program = stage.cluster(['--workers=2'])
        assert program.wait() == 0, program.output
        assert stage.is_empty()
    assert all(stage.scene.struck(number) for number in range(3))
    assert files.differences(stage.model_dir, undisturbed.two_workers()) == []
    assert files.named(stage.model_dir) == 100
    assert files.partial(stage.model_dir) == []

    report = json.loads((stage.model_dir / 'report.json').read_text())
    causes = [attempt['cause'] for attempt in report['attempts']]
    assert [(cause['task'], cause['code']) for cause in causes[:2]] == [('worker:1', 137), ('worker:0', 137)]
    assert causes[2:] == [None]
    lives = [(task['life'], task['code']) for task in report['attempts'][2]['tasks'] if task['name'] == 'evaluator:0']
    assert lives == [(1, 137), (2, 0)]  # restarted alone
    lines = (stage.model_dir / 'eval/metrics.jsonl').read_text().splitlines()
    assert json.loads(lines[-1])['step'] == 100
    assert list((stage.model_dir / 'export/final').iterdir())


@pytest.mark.slow
def test_early_stopping_ends_all_tasks_at_one_step(tmp_path, undisturbed):
    row = stopping.Stops(again=False)(tmp_path / 'case', undisturbed)
    assert not row.problems, row.line()
