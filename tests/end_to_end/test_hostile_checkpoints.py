"""Checkpoints that a file system refuses or does not share. `python -m tests.chaos` has more of them."""

import errno

import pytest

from estimator_trainer import exit_codes
from tests.chaos import hostile_checkpoints as hostile

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    'play',
    [hostile.Refused(errno.ESTALE, 'open', exit_codes.OK, times=2), hostile.NotShared()],
    ids=['a file that is stale twice', 'two workers with a model_dir each'],
)
def test_hostile_checkpoints(play, tmp_path, undisturbed):
    row = play(tmp_path / 'case', undisturbed)
    assert not row.problems, row.line()
