"""profiles.schedule: where profiles begin and end, and where calls have to end for them."""

from estimator_trainer.monitoring.profiles.profile_flags import Steps
from estimator_trainer.monitoring.profiles.schedule import ASKED_STEPS, Schedule, border_of


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
