"""Awkward data, and steps that become slow. `python -m tests.chaos` has more of it."""

import pytest

from tests.chaos import hostile_data, hostile_pace

pytestmark = pytest.mark.slow


def check(play, tmp_path):
    row = play(tmp_path / 'case', None)
    assert not row.problems, row.line()


def test_arrays_are_no_part_of_the_graph(tmp_path):
    check(hostile_data.large_arrays, tmp_path)


def test_sigterm_is_obeyed_when_steps_have_become_slow(tmp_path):
    check(hostile_pace.BecomesSlow(hostile_pace.LOOPS['custom_loop'], pair=True), tmp_path)
