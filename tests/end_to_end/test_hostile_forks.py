"""Jobs with helper processes, and a terminal that is closed. `python -m tests.chaos --only=hostile` has more."""

import signal

import pytest

from tests.chaos import hostile_forks

pytestmark = pytest.mark.slow


def test_a_signal_to_a_trainer_with_helpers_and_to_its_group(tmp_path, undisturbed):
    row = hostile_forks.Stops(signal.SIGTERM, group=True)(tmp_path / 'case', undisturbed)
    assert not row.problems, row.line()


def test_a_terminal_that_is_closed(tmp_path, undisturbed):
    row = hostile_forks.closed_terminal(tmp_path / 'case', undisturbed)
    assert not row.problems, row.line()
