"""Ends of tasks -> cause and exit code: no process is started."""

import dataclasses
import signal

import pytest

from estimator_trainer.supervisor.policy import causes
from estimator_trainer.supervisor.policy.causes import (
    Cause,
    EndedBy,
    GangEnd,
    GangEndKind,
    GangOutcome,
    TaskEnd,
    TaskError,
)


def ends(*codes, peers=None):
    return [
        TaskEnd(f'worker:{i}', code, 1.0, error=TaskError('', peer=(peers or {}).get(i)))
        for i, code in enumerate(codes)
    ]


@pytest.mark.parametrize(
    'codes, culprit',
    [
        # a death by signal comes before a code of its own, whatever the order
        ([1, -9], 1),
        ([143, -9], 1),
        ([193, -9], 1),
        # then a task that says it is at fault itself
        ([143, 1], 1),
        ([195, 70], 1),
        ([193, 64], 1),
        # then stalled, not saved, unknown
        ([143, 137], 1),
        ([193, 195], 1),
        ([130, 196], 1),
        # then stops in good order; a lost peer comes last of all
        ([193, 143], 1),
        ([194, 130], 1),
        # ties go to the first
        ([1, 64], 0),
        ([-9, -11], 0),
        ([193, 194], 0),
        ([143, 130], 0),
    ],
)
def test_cause(codes, culprit):
    ended = ends(*codes)
    assert causes.first_failure(ended) == ended[culprit]


def test_who_was_told_to_stop_comes_before_those_that_followed():
    stopped, follower, lost = ends(143, 143, 193)
    follower = dataclasses.replace(follower, error=TaskError('stopped', follows=True))
    assert causes.first_failure([follower, stopped]) == stopped
    assert causes.first_failure([lost, follower]) == follower
    alone = GangEnd(GangEndKind.FAILED, Cause(follower.name, 143, follower))
    assert causes.settled(alone, [follower, lost]) == alone
    assert causes.settled(alone, [follower, lost, stopped]).cause == Cause(stopped.name, 143, stopped)
    first = GangEnd(GangEndKind.FAILED, Cause(stopped.name, 143, stopped))
    assert causes.settled(first, [stopped, follower]) == first


def test_who_reports_a_lost_peer_is_not_to_blame():
    reporter, other = ends(193, 0, peers={0: 'worker:2'})
    assert causes.cause_of([reporter]) == Cause('worker:2', 193, None, reporter)
    assert causes.cause_of([reporter], [other]) == Cause('worker:2', 193, None, reporter)


def test_how_the_lost_peer_ended_is_the_cause_where_it_is_known():
    reporter, _, lost = ends(193, 0, -9, peers={0: 'worker:2'})
    assert causes.cause_of([reporter], [lost]) == Cause('worker:2', 137, lost, reporter)


def test_two_that_lost_each_other_blame_the_first_ones_peer():
    first, second = ends(193, 193, peers={0: 'worker:1', 1: 'worker:0'})
    assert causes.cause_of([first, second], [first, second]) == Cause('worker:1', 193, None, first)


@pytest.mark.parametrize('peer', [None, 'worker:0'])
def test_a_reporter_that_names_nobody_else_is_itself_the_cause(peer):
    (reporter,) = ends(194, peers={0: peer})
    assert causes.cause_of([reporter]) == Cause('worker:0', 194, reporter)


@pytest.mark.parametrize('code', [1, -9, 143])
def test_a_peer_counts_only_in_a_symptom(code):
    (task,) = ends(code, peers={0: 'worker:1'})
    assert causes.cause_of([task]).name == 'worker:0'


@pytest.mark.parametrize(
    'code, told, how',
    [
        (0, None, EndedBy.BY_ITSELF),
        (-9, None, EndedBy.BY_ITSELF),
        (143, None, EndedBy.BY_ITSELF),
        (-9, signal.SIGKILL, EndedBy.KILLED),
        (1, signal.SIGKILL, EndedBy.BY_ITSELF),  # it was quicker
        (-15, signal.SIGTERM, EndedBy.STOPPED),
        (143, signal.SIGTERM, EndedBy.STOPPED),
        (0, signal.SIGTERM, EndedBy.STOPPED),
        (196, signal.SIGTERM, EndedBy.BY_ITSELF),
        (-9, signal.SIGTERM, EndedBy.BY_ITSELF),
        (-signal.SIGUSR1, signal.SIGUSR1, EndedBy.KILLED),
    ],
)
def test_whose_doing_an_end_is(code, told, how):
    assert TaskEnd('worker:0', code, 1, told).how is how


@pytest.mark.parametrize(
    'stop, code',
    [
        (GangEnd(GangEndKind.DONE), 0),
        (GangEnd(GangEndKind.FAILED, causes.cause_of(ends(64))), 64),
        (GangEnd(GangEndKind.FAILED, causes.cause_of(ends(-9))), 137),
        (GangEnd(GangEndKind.STALLED, Cause('', 195)), 195),
        (GangEnd(GangEndKind.SIGNALLED, signum=signal.SIGINT), 130),
        (GangEnd(GangEndKind.SIGNALLED, signum=signal.SIGTERM), 143),
        (GangEnd(GangEndKind.SIGNALLED, signum=signal.SIGHUP), 129),
        (GangEnd(GangEndKind.NOT_DRAINED, late=('ps:0',)), 1),
    ],
)
def test_exit_code(stop, code):
    assert stop.exit_code == code


@pytest.mark.parametrize(
    'lines, error',
    [
        ([], None),
        (['boom'], None),
        (['Traceback (most recent call last):', '  File "x.py", line 1'], None),
        (
            ['a', 'Traceback (most recent call last):', '  File "x.py", line 1', '    f()', 'ValueError: no', 'data'],
            TaskError(
                'ValueError: no',
                traceback=(
                    'Traceback (most recent call last):',
                    '  File "x.py", line 1',
                    '    f()',
                    'ValueError: no',
                    'data',
                ),
            ),
        ),
    ],
)
def test_what_a_program_has_printed_may_say_why_it_failed(lines, error):
    assert TaskError.from_output(lines) == error


def test_the_line_of_tensorflow_that_tells_something_and_the_cure_of_compat():
    text = (
        'Graph execution error:\n\nDetected at node x defined at (most recent call last):\n  File "x.py", line 3, in f'
    )
    places = [f'  File "x.py", line {line}, in f' for line in range(50)]
    lines = ['Traceback (most recent call last):', '  File "x.py"', f'tensorflow.errors_impl.InternalError: {text}']
    lines = [*'\n'.join([*lines, "Node: 'x'", 'it broke', '', 'Original stack trace']).splitlines(), *places]
    error = TaskError.from_output(lines)
    assert (error.message, error.traceback) == ('InternalError: it broke', tuple(places[-20:]))
    assert not error.permanent
    cured = TaskError.from_output([*lines, 'compat: do this'])
    assert (cured.message, cured.permanent) == ('do this', True)


@pytest.mark.parametrize(
    'chief, state, code',
    [
        (TaskEnd('worker:0', 130, 9, signal.SIGINT), 'stopped', 130),
        (TaskEnd('worker:0', -9, 9, signal.SIGKILL), 'training', 196),  # a second Ctrl-C
        (TaskEnd('worker:0', -9, 9, signal.SIGKILL), None, 130),  # at start-up
        (TaskEnd('worker:0', -9, 9, signal.SIGKILL), 'evaluating', 130),  # the last step is saved
        (TaskEnd('worker:0', 196, 9, signal.SIGINT), 'training', 196),
        (TaskEnd('worker:0', 0, 9), 'training', 130),
    ],
)
def test_the_code_of_a_run_that_was_told_to_stop(chief, state, code):
    others = (TaskEnd('worker:1', -9, 9, signal.SIGKILL), chief)
    outcome = GangOutcome(GangEnd(GangEndKind.SIGNALLED, signum=signal.SIGINT), others, 9, signal.SIGINT)
    assert causes.code_of_stopped(outcome, state) == code


def test_steps_that_a_failure_has_cost_are_not_those_of_the_signal_after_it():
    failed = TaskEnd('worker:0', -9, 9)
    outcome = GangOutcome(GangEnd(GangEndKind.FAILED, Cause('worker:0', 137, failed)), (failed,), 9, signal.SIGTERM)
    assert causes.code_of_stopped(outcome, 'training') == 143


@pytest.mark.parametrize(
    'value, error',
    [
        ({}, None),
        (
            {'message': 'no\nway', 'step': 3, 'peer': 'worker:1', 'traceback': ['a', 'b']},
            TaskError('no way', 3, 'worker:1', ('a', 'b')),
        ),
        ({'message': None, 'step': '3', 'peer': '', 'traceback': 'a'}, TaskError('')),
        ({'message': 5, 'step': True, 'peer': 1, 'follows': 1}, TaskError('5')),
        ({'message': 'stopped', 'follows': True}, TaskError('stopped', follows=True)),
    ],
)
def test_an_error_file_may_hold_anything(value, error):
    assert TaskError.from_record(value) == error
