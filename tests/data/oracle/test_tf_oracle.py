"""A sample of `python -m tests.data.oracle`."""

from tests.data.oracle.__main__ import counts


def test_generated_files_are_read_as_they_stand_or_refused_by_name():
    found = counts(examples=12, seed=7)
    assert sum(found.values()) >= 12 and any(outcome == 'equal' for _, outcome in found)
