"""A gang of fake tasks: who ends it, and how the others are ended."""

import signal

import pytest

from estimator_trainer.supervisor import gang
from estimator_trainer.supervisor.gang import Gang
from estimator_trainer.supervisor.policy.causes import EndedBy, GangEndKind
from estimator_trainer.supervisor.policy.restarts import Limits
from tests.supervisor import fakes
from tests.supervisor.fakes import Task


def outcome_of(tasks, limits=Limits(), sent=(), serve_for_ever=()):
    """How a gang of fake tasks ends to which these signals are sent, and what is said."""
    console, signals = fakes.Console(), fakes.Signals()
    signals.sent += sent
    gang = Gang(fakes.commands(tasks, serve_for_ever), fakes.Launcher(tasks), limits, console)
    return gang.run(signals), console.text


def codes(outcome):
    return {task.name: task.code for task in outcome.ended}


def test_a_failure_kills_the_others():
    outcome, said = outcome_of({'worker:0': Task(), 'worker:1': Task(3), 'evaluator:0': Task()})
    assert (outcome.end.exit_code, outcome.end.cause.name) == (3, 'worker:1')
    assert codes(outcome) == {'worker:1': 3, 'worker:0': -9, 'evaluator:0': -9}
    assert outcome.ended[1].how is EndedBy.KILLED
    assert 'worker:1 ended with exit code 3' in said
    assert 'killing worker:0, evaluator:0' in said


def test_a_stop_in_good_order_stops_the_others():
    outcome, said = outcome_of({'worker:0': Task(), 'worker:1': Task(143)})
    assert (outcome.end.exit_code, outcome.end.cause.name) == (143, 'worker:1')
    assert codes(outcome) == {'worker:1': 143, 'worker:0': -15}
    assert outcome.ended[1].how is EndedBy.STOPPED
    assert 'stopping worker:0 (SIGTERM' in said


def test_a_death_by_signal_is_a_failure():
    outcome, _ = outcome_of({'worker:0': Task(), 'worker:1': Task(-9)})
    assert (outcome.end.exit_code, outcome.end.cause.name) == (137, 'worker:1')


def test_who_ignores_sigterm_is_killed_after_the_grace():
    tasks = {'worker:0': Task(deaf=[signal.SIGTERM]), 'worker:1': Task(143)}
    outcome, said = outcome_of(tasks, Limits(grace_secs=0.02))
    assert outcome.end.exit_code == 143
    assert codes(outcome) == {'worker:1': 143, 'worker:0': -9}
    assert 'killing worker:0' in said


@pytest.mark.parametrize('signum, code', [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_is_forwarded(signum, code):
    """As Ctrl-C, or as SIGTERM."""
    outcome, said = outcome_of({'worker:0': Task()}, Limits(grace_secs=10), sent=[signum])
    assert (outcome.end.exit_code, outcome.end.kind, outcome.signum) == (code, GangEndKind.SIGNALLED, signum)
    assert codes(outcome) == {'worker:0': -2 if signum == signal.SIGINT else -15}
    assert outcome.ended[0].how is EndedBy.STOPPED
    if signum == signal.SIGINT:
        assert 'received Ctrl-C; stopping worker:0 (Ctrl-C, SIGKILL after 10 s; a second Ctrl-C kills' in said
        assert 'SIGTERM' not in said


def test_a_second_ctrl_c_kills_at_once():
    sent = [signal.SIGINT, signal.SIGTERM, signal.SIGINT]  # the second is no Ctrl-C, and changes nothing
    task = Task(deaf=[signal.SIGINT])
    outcome, _ = outcome_of({'worker:0': task}, Limits(grace_secs=600), sent)
    assert (outcome.end.exit_code, codes(outcome)) == (130, {'worker:0': -9})
    assert task.received == [signal.SIGINT, signal.SIGKILL]


def test_what_goes_on_after_training_is_given_a_bound():
    tasks = {'worker:0': Task(0), 'ps:0': Task(), 'evaluator:0': Task(0)}
    outcome, said = outcome_of(tasks, Limits(drain_secs=0.2))
    assert (outcome.end.exit_code, outcome.end.kind, outcome.end.late) == (1, GangEndKind.NOT_DRAINED, ('ps:0',))
    assert 'waiting for ps:0 to end, at most 0.2 s (--drain_secs)' in said
    assert 'stopping ps:0' in said


def test_who_serves_for_ever_is_stopped_when_all_others_are_done():
    tasks = {name: Task(0) for name in ('chief:0', 'worker:0')}
    tasks |= {'ps:0': Task(), 'ps:1': Task(), 'evaluator:0': Task(0, polls=5)}
    outcome, said = outcome_of(tasks, serve_for_ever=['ps:0', 'ps:1'])
    assert (outcome.end.exit_code, outcome.end.kind, outcome.end.late) == (0, GangEndKind.DONE, ())
    assert {task.how for task in outcome.ended if task.name.startswith('ps')} == {EndedBy.STOPPED}
    assert 'waiting for evaluator:0 to end' in said
    assert 'all other tasks are done, and ps:0, ps:1 would wait for ever; stopping ps:0, ps:1' in said


def test_who_serves_for_ever_and_hears_no_order_is_killed_and_the_gang_is_done():
    tasks = {'chief:0': Task(0), 'ps:0': Task(deaf=[signal.SIGTERM])}
    outcome, _ = outcome_of(tasks, Limits(grace_secs=0.02), serve_for_ever=['ps:0'])
    assert (outcome.end.exit_code, outcome.end.kind, codes(outcome)['ps:0']) == (0, GangEndKind.DONE, -9)


def test_an_evaluator_that_does_not_end_is_late_and_who_serves_for_ever_is_not():
    tasks = {'chief:0': Task(0), 'ps:0': Task(), 'evaluator:0': Task()}
    end = outcome_of(tasks, Limits(drain_secs=0.02), serve_for_ever=['ps:0'])[0].end
    assert (end.exit_code, end.kind, end.late) == (1, GangEndKind.NOT_DRAINED, ('evaluator:0',))


@pytest.mark.parametrize('code', [193, 194])
def test_a_chief_that_has_lost_a_peer_has_not_trained(code):
    outcome, said = outcome_of({'chief:0': Task(code), 'ps:0': Task()}, serve_for_ever=['ps:0'])
    assert (outcome.end.exit_code, outcome.end.kind) == (code, GangEndKind.FAILED)
    assert 'training is done' not in outcome_of({'worker:0': Task(code), 'worker:1': Task()})[1] + said


def test_the_end_of_who_serves_for_ever_is_a_failure_while_others_run():
    end = outcome_of({'chief:0': Task(), 'ps:0': Task(7)}, serve_for_ever=['ps:0'])[0].end
    assert (end.exit_code, end.kind, end.cause.name) == (7, GangEndKind.FAILED, 'ps:0')


def test_a_task_that_cannot_be_started_ends_those_that_were():
    tasks = {'worker:0': Task(), 'worker:1': FileNotFoundError('No such file or directory'), 'worker:2': Task()}
    outcome, _ = outcome_of(tasks)
    assert [(end.name, end.code) for end in outcome.ended] == [('worker:1', 1), ('worker:0', -9)]
    cause = outcome.end.cause
    assert (cause.name, cause.code, cause.ended.never_started) == ('worker:1', 1, True)
    assert 'No such file or directory' in cause.ended.error.message


def test_a_task_that_the_kernel_does_not_let_go_holds_nothing_up(monkeypatch):
    """As one that waits for a file of a server that is gone: SIGKILL was sent, and it does not end."""
    monkeypatch.setattr(gang, 'KILLED_SECS', 0.02)
    held = Task(deaf=[signal.SIGTERM, signal.SIGKILL])
    outcome, _ = outcome_of({'worker:0': held}, Limits(grace_secs=0.02), sent=[signal.SIGTERM])
    assert outcome.end.exit_code == 143 and held.received[:2] == [signal.SIGTERM, signal.SIGKILL]
    assert codes(outcome) == {'worker:0': -9}
