"""The most telling cases of `python -m tests.chaos`, which has all of them."""

import pytest

from tests.chaos import alone, broken, case, stopping, supervised

CASES = {one.name: one for room in (alone, broken, stopping, supervised) for one in room.cases()}


@pytest.fixture(scope='module')
def undisturbed(tmp_path_factory):
    return case.Undisturbed(tmp_path_factory.mktemp('undisturbed'))


@pytest.mark.parametrize('name', [
    'matrix: kill -9 worker:1 training',
    'matrix: kill -9 worker:0 saving',
    'matrix: kill -9 evaluator:0 evaluating',
    'matrix: SIGSTOP worker:1 training',
    'broken: data cut short newest checkpoint',
    'broken: NaN loss step 50',
    'broken: exception, supervisor step 50',
    'broken: a second trainer training',
    'alone: kill -9 worker:1 training',
    'alone: SIGTERM worker:1 training',
    'alone: SIGTERM one process training',
    'stopping: early stopping',
])
def test_fault(name, tmp_path, undisturbed):
    row = CASES[name].run(tmp_path / 'run', undisturbed)
    assert not row.problems, row.line()
