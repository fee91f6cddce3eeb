"""Jobs whose own code fails, or holds up its process. `python -m tests.chaos --only=hostile` has more of them."""

import pytest

from tests.chaos import hostile_blame, hostile_job, hostile_pauses
from tests.chaos.case import Undisturbed


@pytest.fixture
def check(tmp_path):
    def play(case):
        row = case(tmp_path / 'case', Undisturbed(tmp_path))
        assert not row.problems, row.line()

    return play


def test_an_exception_of_a_generator_is_its_tasks_own(check):
    check(hostile_blame.Own(hostile_job.GENERATOR, 'KeyError'))


def test_c_code_that_holds_the_global_lock_loses_nobody(check):
    check(hostile_pauses.OFTEN)
