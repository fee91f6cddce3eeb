"""profiles.schedule: what --profile_steps and --profile_tasks may be, and where profiles and calls begin and end."""

import pytest

from estimator_trainer.errors import UsageError
from estimator_trainer.monitoring.profiles import schedule as schedules
from estimator_trainer.monitoring.profiles.schedule import ASKED_STEPS, Schedule, Steps, border_of


def test_a_range():
    assert schedules.steps('') is None
    assert schedules.steps('100,120') == (100, 120)
    assert schedules.steps('0,100') == (0, 100)
    schedules.check_steps('0,100', max_steps=100)
    schedules.check_steps('0,100', max_steps=None)


@pytest.mark.parametrize(
    'text, max_steps, says',
    [
        ('100', None, 'give two steps'),
        ('-1,5', None, 'give two steps'),
        ('a,b', None, 'give two steps'),
        ('5,5', None, 'after the first'),
        ('0,101', None, '101 steps; give 100 at most'),
        ('90,110', 100, '--max_steps=100'),
    ],
)
def test_no_range(text, max_steps, says):
    with pytest.raises(UsageError, match=says) as caught:
        schedules.check_steps(text, max_steps)
    assert str(caught.value).startswith(f'--profile_steps={text}: ')


def test_tasks():
    tasks = ['worker:0', 'worker:1']
    for text in ('chief', 'all', 'worker:1', 'worker:1,worker:0'):
        schedules.check_tasks(text, tasks)
    for text in ('', 'worker:2', 'worker:0,ps:0', 'evaluator:0'):
        with pytest.raises(UsageError, match='give one of chief, all, worker:0, worker:1'):
            schedules.check_tasks(text, tasks)
    with pytest.raises(UsageError, match="'worker:0' trains here; give one of chief, all\\."):
        schedules.check_tasks('worker:0', [])


@pytest.mark.parametrize(
    'text, chosen', [('chief', [0]), ('all', [0, 1, 2]), ('worker:2', [2]), ('worker:0,worker:2', [0, 2])]
)
def test_who_is_included(text, chosen):
    assert [n for n in range(3) if schedules.includes(text, f'worker:{n}', is_chief=n == 0)] == chosen


def test_the_wanted_steps():
    schedule = Schedule(Steps(100, 120))
    assert not schedule.begins(99)
    assert schedule.begins(100) and schedule.recording
    assert not schedule.begins(100)
    assert not schedule.ends(110, 10)
    assert schedule.ends(120, 10) and not schedule.recording
    assert not schedule.begins(110) and not schedule.misses(130)


def test_what_is_left_of_the_wanted_steps():
    schedule = Schedule(Steps(100, 120))
    assert schedule.begins(111) and schedule.ends(120, 9)


def test_the_wanted_steps_are_past():
    schedule = Schedule(Steps(100, 120))
    assert not schedule.misses(119)
    assert schedule.misses(120)
    assert not schedule.misses(121), 'it is said once'
    assert not schedule.begins(110)


def test_a_request_counts_steps_of_this_task():
    schedule = Schedule(None)
    assert not schedule.begins(5)
    assert schedule.ask() and schedule.ask()
    assert schedule.begins(7)
    assert not schedule.ask(), 'one is under way'
    assert schedule.border(7) == schedule.border(8) == 7 + ASKED_STEPS
    assert not schedule.ends(50, ASKED_STEPS - 1), 'other tasks have moved the step'
    assert schedule.border(50) is None
    assert schedule.ends(51, 1)
    assert not schedule.begins(52)
    assert schedule.ask() and schedule.begins(60)


def test_a_request_before_the_wanted_steps_leaves_them():
    schedule = Schedule(Steps(100, 120))
    schedule.ask()
    assert schedule.begins(10) and schedule.ends(30, 20)
    assert schedule.begins(100) and schedule.ends(120, 20)


def test_a_profile_without_steps_begins_anew():
    schedule = Schedule(Steps(100, 120))
    schedule.ask()
    schedule.begins(10)
    schedule.postpone()
    assert not schedule.recording
    assert schedule.begins(11) and schedule.ends(31, 20)
    schedule.begins(100)
    schedule.postpone()
    assert schedule.begins(100)


def test_the_ends_of_calls_are_the_same_in_all_tasks():
    assert [border_of(Steps(100, 120), step) for step in (0, 99, 100, 119, 120)] == [100, 100, 120, 120, None]
    assert border_of(Steps(0, 20), 0) == 20
    assert border_of(None, 0) is None
