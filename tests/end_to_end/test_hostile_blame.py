"""A job whose own code fails, and a gang that is suspended. `python -m tests.chaos --only=hostile` has more."""

import pytest

from tests.chaos import alone, hostile_blame, hostile_job, hostile_pauses

pytestmark = pytest.mark.slow


@pytest.fixture
def check(tmp_path):
    def play(case):
        row = case(tmp_path / 'case', None)
        assert not row.problems, row.line()

    return play


def test_an_exception_of_a_generator_is_its_tasks_own(check):
    check(hostile_blame.Own(hostile_job.GENERATOR, 'KeyError'))


def test_a_gang_that_was_suspended_goes_on(check):
    check(hostile_pauses.Stopped(alone.BOTH, ('--lost_peer_secs=5',), secs=15))
