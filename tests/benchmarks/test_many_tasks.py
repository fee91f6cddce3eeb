"""What a task does before TensorFlow grows no faster than the number of tasks: the cases of benchmarks/many_tasks.py.

Calls of functions are counted, not seconds: they are the same on every machine.
"""

import importlib.util
import pathlib
import sys

import pytest

_PATH = pathlib.Path(__file__).parents[2] / 'benchmarks' / 'many_tasks.py'
_spec = importlib.util.spec_from_file_location('many_tasks', _PATH)
many_tasks = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(many_tasks)


def calls(work):
    """How many calls `work` makes, the resumptions of generators included."""
    count = 0

    def heard(frame, event, argument):
        nonlocal count
        count += event in ('call', 'c_call')

    sys.setprofile(heard)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize('case', many_tasks.CASES)
def test_ten_times_the_tasks_are_at_most_ten_times_the_work(case):
    few, many = (many_tasks.CASES[case](size) for size in (100, 1000))
    few()  # caches are filled
    assert calls(many) < 12 * calls(few)


def test_the_message_of_thousands_of_mistakes_is_short():
    text = many_tasks.CASES['refused: no address has a port'](1000)()
    lines = text.splitlines()
    assert len(lines) < 30 and '  and 980 more like these' in lines
