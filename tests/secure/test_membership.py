"""Of which attempt a task is: the engine says it, or the chief."""

import pytest

from estimator_trainer.secure import run_key
from estimator_trainer.secure.channel import Identity, Refused
from estimator_trainer.secure.membership import Membership, Settings
from estimator_trainer.secure.refusals import Refusal

KEY = run_key.RunKey.new()
CHIEF, WORKER, EVALUATOR = 'worker:0', 'worker:1', 'evaluator:0'
OLD, NEW = (run_key.name_of_attempt(name) for name in ('old', 'new'))


def member(task, attempt=''):
    return Membership(KEY, Settings(task, CHIEF, attempt, 'key', {}, {}))


def refusal(membership, task, attempt):
    try:
        membership.check(Identity(task, attempt))
    except Refused as refused:
        return refused.refusal


def test_what_the_engine_says_counts_for_every_task():
    for task in (CHIEF, WORKER, EVALUATOR):
        membership = member(task, 'new')
        assert membership.attempt == NEW
        assert refusal(membership, CHIEF, NEW) is None
        assert refusal(membership, CHIEF, OLD) is Refusal.OTHER_ATTEMPT


def test_each_start_of_the_chief_is_an_attempt_of_its_own():
    attempts = {member(CHIEF).attempt for _ in range(3)}
    assert len(attempts) == 3 and '' not in attempts


def test_a_worker_learns_it_from_the_chief_only():
    worker = member(WORKER)
    assert refusal(worker, 'worker:2', OLD) is Refusal.OTHER_ATTEMPT
    assert worker.attempt == ''
    before = worker.client
    assert refusal(worker, CHIEF, NEW) is Refusal.NOBODY_LISTENS  # this call still showed the old certificate
    assert worker.attempt == NEW
    assert worker.client is not before
    assert refusal(worker, CHIEF, NEW) is refusal(worker, 'worker:2', NEW) is None


def test_a_chief_that_has_not_ended_yet_binds_nobody():
    worker = member(WORKER)
    refusal(worker, CHIEF, OLD)
    assert refusal(worker, CHIEF, NEW) is Refusal.NOBODY_LISTENS
    assert worker.attempt == NEW


@pytest.mark.parametrize('task, attempt', [(WORKER, OLD), (EVALUATOR, NEW)])
def test_a_task_that_was_connected_stays_and_an_evaluator_follows(task, attempt):
    membership = member(task)
    refusal(membership, CHIEF, OLD)
    membership.settle()
    refused = refusal(membership, CHIEF, NEW)
    assert membership.attempt == attempt
    assert refused is (Refusal.OTHER_ATTEMPT if task == WORKER else Refusal.NOBODY_LISTENS)
