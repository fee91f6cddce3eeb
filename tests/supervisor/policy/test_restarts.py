"""Failures -> what comes next. No clock, no chance, no process."""

import random

import pytest

from estimator_trainer import exit_codes
from estimator_trainer.supervisor.policy import restarts
from estimator_trainer.supervisor.policy.causes import Cause, TaskEnd, TaskError
from estimator_trainer.supervisor.policy.restarts import Failure, Reason, Rules
from tests.supervisor.fakes import Chance

SHORTEST, LONGEST = Chance(min), Chance(max)


def decide(*failures, rules=Rules(), rng=SHORTEST):
    return restarts.decide(failures, rules, rng)


def every_second(count, code=193, **common):
    return [Failure(at=float(i), code=code, **common) for i in range(count)]


@pytest.mark.parametrize('code', [64, 65, 66, 70, 71, 74, 2, 3, 127])
def test_permanent_codes(code):
    decision = decide(Failure(0, code))
    assert (decision.reason, decision.exit_code) == (Reason.PERMANENT, code)


def test_a_permanent_code_is_its_own_reason_whatever_the_rules_and_the_past():
    failures = [*every_second(9), Failure(9, 64, checkpoint=500)]
    assert decide(*failures).reason is Reason.PERMANENT
    assert decide(failures[-1], rules=Rules(max_restarts=0)).reason is Reason.PERMANENT


def test_an_error_that_says_what_to_change_needs_no_second_try():
    ended = TaskEnd('worker:0', 1, 9, error=TaskError('give it a strategy', permanent=True))
    history = restarts.History(Rules(), SHORTEST, lambda name: False)
    decision = history.decide(Cause('worker:0', 1, ended), 0, checkpoint=0)
    assert (decision.reason, decision.exit_code) == (Reason.PERMANENT, 1)


@pytest.mark.parametrize('code', [1, 128, 129, 130, 134, 137, 139, 143, 193, 194, 195, 196, 198, 255])
def test_codes_worth_another_try(code):
    assert decide(Failure(0, code)).restart
    never = decide(Failure(0, code), rules=Rules(max_restarts=0))
    assert (never.reason, never.exit_code) == (Reason.NEVER, code)


@pytest.mark.parametrize('max_restarts', [1, 2, 3, 7])
def test_so_many_and_no_more(max_restarts):
    rules = Rules(max_restarts=max_restarts)
    for count in range(1, max_restarts + 1):
        decision = decide(*every_second(count), rules=rules)
        assert (decision.restart, decision.number) == (True, count)
    decision = decide(*every_second(max_restarts + 1), rules=rules)
    assert (decision.reason, decision.exit_code) == (Reason.SPENT, 197)


def test_the_delay_doubles_up_to_a_minute():
    rules = Rules(max_restarts=100)
    delays = [decide(*every_second(count), rules=rules).delay for count in range(1, 10)]
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert decide(*every_second(99), rules=rules).delay == 60


def test_the_delay_has_jitter_and_is_bounded_all_the_same():
    assert decide(Failure(0, 193), rng=LONGEST).delay == 1.5
    rules = Rules(max_restarts=100, backoff_secs=50)
    assert decide(Failure(0, 193), rules=rules, rng=LONGEST).delay == 60
    delays = {decide(Failure(0, 193), rng=random.Random(seed)).delay for seed in range(20)}
    assert len(delays) == 20 and all(1 <= delay <= 1.5 for delay in delays)


def test_the_first_delay_is_given():
    assert decide(Failure(0, 193), rules=Rules(backoff_secs=0.25)).delay == 0.25
    assert decide(*every_second(3), rules=Rules(backoff_secs=0)).delay == 0


@pytest.mark.parametrize(
    'times, number',
    [
        ((0, 3600), 1),  # the window has slid over the first
        ((0, 3599), 2),
        ((0, 1, 2, 3600), 3),
        ((0, 1, 2, 3599), None),
        ((0, 1000, 2000, 3000), None),
        ((0, 1000, 2000, 3700), 3),
        ((0, 2000, 4000, 6000, 8000), 2),
    ],
)
def test_the_window_slides(times, number):
    decision = decide(*(Failure(at, 193) for at in times))
    assert decision.number == number if number else decision.reason is Reason.SPENT
    if number:
        assert decision.delay == 2 ** (number - 1)


@pytest.mark.parametrize('code', [exit_codes.STALLED, exit_codes.NO_PEER])
def test_a_gang_that_hangs_at_each_attempt_is_given_up_though_each_attempt_is_long(code):
    decision = decide(*(Failure(1900 * number, code) for number in range(4)))
    assert (decision.reason, decision.exit_code) == (Reason.SPENT, exit_codes.RESTARTS_SPENT)
    assert decide(*(Failure(1900 * number, code, checkpoint=number) for number in range(9))).number == 1


@pytest.mark.parametrize(
    'checkpoints, number',
    [
        ((0, 0, 0), 3),
        ((0, 0, 100), 1),  # all are given back, and the delay
        ((0, 100, 100), 2),
        ((100, 100, 100), 3),  # the first was there before
        ((0, 0, 0, 100), 1),
        ((0, 100, 200, 300, 400, 500), 1),
        ((0, 100, 100, 100), 3),
        ((100, 60), 2),  # an older one was taken: that is no progress
        ((100, 60, 80), 1),  # and this is
        ((100, 60, 60, 60), None),
        ((100, 60, 100, 60, 60, 60), None),
        ((0, 100, 100, 100, 100), None),
        ((0, 0, 0, 0), None),
    ],
)
def test_a_new_checkpoint_gives_the_restarts_back(checkpoints, number):
    decision = decide(*(Failure(i, 193, checkpoint) for i, checkpoint in enumerate(checkpoints)))
    assert decision.number == number if number else decision.reason is Reason.SPENT
    if number:
        assert decision.delay == 2 ** (number - 1)


def test_checkpoints_do_not_excuse_an_evaluator():
    failures = [Failure(i, 193, checkpoint=100 * i, alone=True) for i in range(4)]
    assert decide(*failures).reason is Reason.SPENT


@pytest.mark.parametrize(
    'failures, again',
    [
        ([(1, 0, 7)], True),
        ([(1, 0, 7), (1, 0, 7)], False),
        ([(1, 0, None), (1, 0, None)], False),
        ([(1, 0, 7), (1, 0, 9)], False),  # no checkpoint between
        ([(1, 0, 107), (1, 100, 150)], True),
        ([(1, 0, None), (1, 100, None)], True),
        ([(1, 100, 150), (1, 110, 150)], False),  # the very same step
        ([(1, 0, 7), (193, 0, 7), (1, 0, 7)], False),  # with something else between
        ([(1, 0, 7), (193, 100, 7), (1, 100, 107)], True),
        ([(1, 0, 7), (193, 0, 7)], True),
        ([(1, 80, 90), (193, 40, 45), (1, 60, 65)], True),  # saved since an older checkpoint was taken
        ([(1, 80, 90), (193, 40, 45), (1, 40, 50)], False),
        ([(193, 0, 7), (193, 0, 7)], True),
    ],
)
def test_an_exception_is_tried_again_once_without_a_new_checkpoint(failures, again):
    decision = decide(*(Failure(i, code, checkpoint, step=step) for i, (code, checkpoint, step) in enumerate(failures)))
    assert decision.restart == again
    if not again:
        assert (decision.reason, decision.exit_code) == (Reason.REPEATED, 1)


def test_a_task_that_cannot_be_started_has_the_whole_budget():
    failures = every_second(4, code=1, never_started=True)
    assert decide(*failures[:3]).number == 3
    assert decide(*failures).reason is Reason.SPENT
    assert decide(failures[0], Failure(1, 1)).restart  # the first exception


def test_each_single_task_has_an_account_of_its_own():
    budgets = restarts.TaskRestartBudgets(Rules(max_restarts=2), SHORTEST)
    first = [budgets.decide('evaluator:0', 137, at) for at in (0, 1, 2)]
    assert [(d.restart, d.number, d.delay) for d in first[:2]] == [(True, 1, 1), (True, 2, 2)]
    assert (first[2].reason, first[2].exit_code) == (Reason.SPENT, 137)
    assert budgets.decide('worker:0', 137, 2).number == 1
    assert budgets.decide('evaluator:0', 137, 3600).number == 2  # the first is forgotten


@pytest.mark.parametrize('code', [1, 70, 71, 74, 130, 137, 143, 193, 196])
def test_a_single_task_is_restarted_after_almost_any_code(code):
    assert restarts.TaskRestartBudgets(Rules(), SHORTEST).decide('evaluator:0', code, 0).restart


@pytest.mark.parametrize('code', [64, 65, 66])
def test_but_not_after_those_that_another_life_does_not_change(code):
    decision = restarts.TaskRestartBudgets(Rules(), SHORTEST).decide('evaluator:0', code, 0)
    assert decision.reason is Reason.PERMANENT


def test_nor_where_restarts_are_off():
    decision = restarts.TaskRestartBudgets(Rules(max_restarts=0), SHORTEST).decide('evaluator:0', 137, 0)
    assert decision.reason is Reason.NEVER


def at_fault(*tasks, workers=None, checkpoints=None, **last):
    failures = [
        Failure(
            i,
            137,
            (checkpoints or {}).get(i, 0),
            task,
            workers=(workers or {}).get(i, 3),
            **(last if i == len(tasks) - 1 else {}),
        )
        for i, task in enumerate(tasks)
    ]
    return restarts.is_at_fault_again(failures)


def test_a_worker_that_fails_twice_in_a_row_is_given_up():
    assert at_fault('worker:2', 'worker:2')
    assert at_fault('worker:1', 'worker:2', 'worker:2')
    assert not at_fault('worker:2')
    assert not at_fault('worker:2', 'worker:1')
    assert not at_fault('worker:2', 'worker:1', 'worker:2')
    assert not at_fault('worker:2', 'worker:2', checkpoints={1: 100})
    assert not at_fault('worker:2', 'worker:2', workers={0: 4})  # another one of that name


def test_one_that_cannot_be_started_is_given_up_at_once():
    assert at_fault('worker:2', never_started=True)
    assert not at_fault('evaluator:0', never_started=True)


@pytest.mark.parametrize('task', ['worker:0', 'evaluator:0', ''])
def test_nobody_else_is_given_up(task):
    assert not at_fault(task, task, never_started=True)


@pytest.mark.parametrize(
    'workers, min_workers, global_batch, fewer',
    [
        (3, 1, 192, 2),
        (3, 1, 15, 1),
        (3, 2, 15, None),
        (4, 1, 64, 2),
        (5, 3, 320, 4),
        (5, 3, 5 * 9, 3),
        (2, 2, 128, None),
        (1, 1, 64, None),
    ],
)
def test_the_next_number_of_workers_that_shares_the_batch(workers, min_workers, global_batch, fewer):
    assert restarts.fewer_workers(workers, min_workers, global_batch) == fewer
