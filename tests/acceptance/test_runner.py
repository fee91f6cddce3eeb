"""What compare.py runs the acceptance programs with. `.ci/run --all` plays the programs."""

import importlib.util
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).parent
_spec = importlib.util.spec_from_file_location('acceptance_runner', HERE / 'runner.py')
runner = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(runner)


def test_a_program_that_fails_is_reported_with_its_output(tmp_path):
    with pytest.raises(RuntimeError, match='(?s)exit code 1.*ValueError'):
        runner._finish([runner._start(runner.Python(sys.executable, compat=False), tmp_path, 'task', ['cluster'])], 300)


def test_a_program_that_hangs_is_killed(tmp_path):
    python = runner.Python(sys.executable, compat=False)
    python.command = lambda *arguments: [sys.executable, '-c', 'import time; time.sleep(600)']
    process = runner._start(python, tmp_path, 'task', [])
    with pytest.raises(RuntimeError, match='not done after 1 s'):
        runner._finish([process], 1)
    assert process.returncode == -9


@pytest.mark.parametrize(
    'expected, found, difference',
    [
        ({'a': 1.0}, {'a': 1.0}, 0),
        ({'a': 0.0}, {'a': 0.0}, 0),
        ({'a': 2.0, 'b': 1.0}, {'a': 1.0, 'b': 1.0}, 0.5),
        ({'a': 1.0}, {'b': 1.0}, float('inf')),
        ({'a': -1.0}, {'a': 1.0}, 2),
    ],
)
def test_worst_difference(expected, found, difference):
    assert runner.worst_difference(expected, found) == difference
