"""A kill within the final export is made up for. `python -m tests.chaos --only=hostile` has many more of them."""

import pytest

from estimator_trainer import exit_codes
from tests.chaos import files, hostile_exports
from tests.chaos.exporting_job import FINAL, KILL, STRIKE
from tests.chaos.stage import Stage

pytestmark = pytest.mark.slow


def test_the_same_command_writes_the_export_that_is_missing(tmp_path):
    with Stage(tmp_path / 'case') as stage:
        killed = stage.trainer(*hostile_exports.JOB, **{STRIKE: f'{FINAL} {hostile_exports.EVALUATIONS} {KILL}'})
        assert killed.wait(120) == 128 + 9, killed.output
        before = hostile_exports.What.of(stage.model_dir)
        assert before.finals == 0 and len(before.evaluations) == hostile_exports.EVALUATIONS
        again = stage.trainer(*hostile_exports.JOB)
        assert again.wait(120) == exit_codes.OK, again.output
        assert 'the exports of model.ckpt-100 may be missing' in again.output
        after = hostile_exports.What.of(stage.model_dir)
        assert after.problems(files.named(stage.model_dir)) == []
        assert (after.evaluations, after.best) == (before.evaluations, before.best)
