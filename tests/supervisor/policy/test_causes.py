"""Ends of tasks -> cause, exit code, words, report: no process is started."""

import dataclasses
import json
import pathlib
import signal

import pytest

from estimator_trainer.run_dir.training_file import TrainingStatus
from estimator_trainer.supervisor.policy import causes, restarts
from estimator_trainer.supervisor.policy.causes import (
    Cause,
    EndedBy,
    GangEnd,
    GangEndKind,
    GangOutcome,
    TaskEnd,
    TaskError,
)
from estimator_trainer.supervisor.policy.restarts import Decision, Reason, Rules
from estimator_trainer.supervisor.reports import report_file, wording
from estimator_trainer.supervisor.reports.attempt import Attempt


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
    told, follower, lost = ends(143, 143, 193)
    follower = dataclasses.replace(follower, error=TaskError('stopped', follows=True))
    assert causes.first_failure([follower, told]) == told
    assert causes.first_failure([lost, follower]) == follower
    alone = GangEnd(GangEndKind.FAILED, Cause(follower.name, 143, follower))
    assert causes.settled(alone, [follower, lost]) == alone
    assert causes.settled(alone, [follower, lost, told]).cause == Cause(told.name, 143, told)
    first = GangEnd(GangEndKind.FAILED, Cause(told.name, 143, told))
    assert causes.settled(first, [told, follower]) == first


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
    assert TaskError.of_output(lines) == error


def test_the_line_of_tensorflow_that_tells_something_and_the_cure_of_compat():
    text = (
        'Graph execution error:\n\nDetected at node x defined at (most recent call last):\n  File "x.py", line 3, in f'
    )
    places = [f'  File "x.py", line {line}, in f' for line in range(50)]
    lines = ['Traceback (most recent call last):', '  File "x.py"', f'tensorflow.errors_impl.InternalError: {text}']
    lines = [*'\n'.join([*lines, "Node: 'x'", 'it broke', '', 'Original stack trace']).splitlines(), *places]
    error = TaskError.of_output(lines)
    assert (error.message, error.traceback) == ('InternalError: it broke', tuple(places[-20:]))
    assert TaskError.of_output([*lines, 'compat: do this']).message == 'do this'


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
    assert TaskError.of(value) == error


FIRST = TaskEnd('worker:1', -9, 3.21)
ATTEMPT = Attempt(
    number=2,
    generation='2-ab',
    workers=2,
    addresses={'worker:0': 'a:1', 'worker:1': 'b:2'},
    folder=pathlib.Path('/logs/attempt-2'),
    started=1000.0,
    outcome=GangOutcome(
        GangEnd(GangEndKind.FAILED, Cause('worker:1', 137, FIRST)),
        (FIRST, TaskEnd('worker:0', -9, 3.4, signal.SIGKILL)),
        3.5,
    ),
    training=TrainingStatus('training', step=537, max_steps=1000, checkpoint_step=500),
    checkpoint_before=400,
)


def of_cause(cause, *others):
    ended = tuple(end for end in (cause.ended, cause.reporter, *others) if end)
    outcome = GangOutcome(GangEnd(GangEndKind.FAILED, cause), ended, 3.5)
    return dataclasses.replace(ATTEMPT, outcome=outcome, training=None)


def test_the_closing_block_tells_the_cause_the_others_and_the_loss():
    assert wording.closing(ATTEMPT, 'logs/worker-1.err', ['boom']).splitlines() == [
        'worker:1 ended with SIGKILL after 3.2 s: the first to fail',
        'last lines of logs/worker-1.err:',
        '  | boom',
        'worker:0 ended with SIGKILL after 3.4 s, killed by the supervisor',
        '37 steps are lost: step 537 was done, the last checkpoint is of step 500',
    ]


def test_a_traceback_is_shown_in_place_of_the_log():
    error = TaskError('ValueError: no', 7, None, ('Traceback', 'ValueError: no'))
    cause = Cause('worker:1', 1, TaskEnd('worker:1', 1, 3.2, error=error))
    lines = wording.closing(of_cause(cause), 'log', ['boom']).splitlines()
    assert lines[0].startswith('worker:1 ended with exit code 1 (')
    assert lines[1:] == [
        'worker:1 says: ValueError: no',
        'end of its traceback:',
        '  | Traceback',
        '  | ValueError: no',
    ]


@pytest.mark.parametrize(
    'code, told, kills, hint',
    [(-9, None, 1, True), (-9, None, 0, False), (-11, None, 1, False), (-9, signal.SIGKILL, 1, False)],
)
def test_a_hint_at_the_memory(code, told, kills, hint):
    ended = TaskEnd('worker:1', code, 3.2, told)
    attempt = dataclasses.replace(of_cause(Cause('worker:1', ended.exit_code, ended)), oom_kills=kills)
    assert ('oom_kill' in wording.closing(attempt, 'log', [])) == hint
    assert report_file.document(1, 0, 1, [(attempt, None)])['attempts'][0]['cause']['out_of_memory'] == hint


@pytest.mark.parametrize(
    'code, text',
    [
        (193, 'worker:1 was lost: it did not answer (reported by worker:0)'),
        (194, 'worker:1 never came (reported by worker:0)'),
    ],
)
def test_a_lost_peer_is_named(code, text):
    reporter = TaskEnd('worker:0', code, 2, error=TaskError('it is gone', peer='worker:1'))
    cause = Cause('worker:1', code, None, reporter)
    assert wording.cause(cause) == text
    lines = wording.closing(of_cause(cause), 'logs/worker-1.err', []).splitlines()
    assert lines[:4] == [
        f'{text}: the first to fail',
        'worker:0 says: it is gone',
        'last lines of logs/worker-1.err:',
        '  (it is empty)',
    ]


def test_a_task_that_was_never_started_says_why():
    ended = TaskEnd('worker:1', 1, 0.1, error=TaskError('cannot be started: no'), never_started=True)
    text = wording.closing(of_cause(Cause('worker:1', 1, ended)), 'log', [])
    assert text == 'worker:1 cannot be started: no: the first to fail'


def test_a_stall_points_to_the_stacks():
    stalled = Attempt(
        1, 'g', 1, {}, pathlib.Path('/logs'), 0, GangOutcome(GangEnd(GangEndKind.STALLED, Cause('', 195)), (), 9)
    )
    assert wording.closing(stalled, None, ()).splitlines() == [
        'no step was finished within the time limit: the first to fail',
        'the stacks of all tasks are in /logs',
    ]


def test_a_good_end_needs_no_words():
    done = dataclasses.replace(ATTEMPT, outcome=GangOutcome(GangEnd(GangEndKind.DONE), (), 9))
    assert wording.closing(done, None, ()) == ''
    assert wording.end(0, 9, 0, None) == 'end: exit code 0 after 9.0 s'
    assert wording.end(130, 9, 0, None, wording.on_disk(40)) == (
        'end: exit code 130 (interrupted (Ctrl-C); the same command goes on from the checkpoint at step 40) after 9.0 s'
    )
    assert 'there is no checkpoint, so the same command begins anew' in wording.end(
        130, 9, 0, None, wording.on_disk(None)
    )
    assert wording.end(197, 9, 3, 'm/report.json') == (
        'end: exit code 197 (failed more often than --max_restarts allows) after 9.0 s, '
        '3 restart(s); report in m/report.json'
    )


@pytest.mark.parametrize(
    'reason, words',
    [
        (Reason.NEVER, '--max_restarts=0'),
        (Reason.PERMANENT, 'exit code 137 is permanent'),
        (Reason.REPEATED, 'the same exception again'),
        (Reason.SPENT, '--max_restarts=3 were made within 3600 s'),
    ],
)
def test_why_there_is_no_restart(reason, words):
    cause = ATTEMPT.outcome.end.cause
    line = wording.no_restart(Decision(reason, 137), Rules(), cause)
    assert line.endswith('worker:1, SIGKILL') == (reason in (Reason.REPEATED, Reason.SPENT))
    assert line.startswith('no restart: ') and words in line


def test_what_comes_next():
    decision = Decision(Reason.RESTART, 137, 1, 1.23)
    cause = ATTEMPT.outcome.end.cause
    assert wording.restart(decision, 3, 500, cause) == (
        'restart 1 of 3 in 1.2 s, from the checkpoint at step 500: worker:1, SIGKILL'
    )
    assert 'from the beginning: ' in wording.restart(decision, 3, None, cause)


@pytest.mark.parametrize(
    'reason, words',
    [
        (Reason.RESTART, 'restarting it alone, 2 of 3, in 1.5 s'),
        (Reason.SPENT, 'has been restarted alone 3 times'),
        (Reason.PERMANENT, ''),
        (Reason.NEVER, ''),
    ],
)
def test_what_comes_of_a_single_task(reason, words):
    line = wording.alone(FIRST, Decision(reason, 137, 2, 1.5), 3)
    assert words in line if words else line == ''


@pytest.mark.parametrize(
    'training, before, checkpoint, lost',
    [
        (TrainingStatus('training', step=537, checkpoint_step=500), 400, 500, 37),
        (TrainingStatus('training', step=37), None, None, 37),
        (TrainingStatus('training', step=437), 400, 400, 37),
        (TrainingStatus('starting'), 400, 400, None),
        (TrainingStatus('stopped', step=0, checkpoint_step=0), None, 0, 0),
        (None, 400, 400, None),
        (None, None, None, None),
    ],
)
def test_what_is_lost(training, before, checkpoint, lost):
    attempt = dataclasses.replace(ATTEMPT, training=training, checkpoint_before=before)
    assert (attempt.checkpoint, attempt.steps_lost) == (checkpoint, lost)


def test_the_report_says_all_that_is_known():
    done = dataclasses.replace(
        ATTEMPT, number=3, outcome=GangOutcome(GangEnd(GangEndKind.DONE), (TaskEnd('worker:0', 0, 8),), 8)
    )
    told = report_file.document(0, 1000.0, 1020.5, [(ATTEMPT, Decision(Reason.RESTART, 137, 1, 1.5)), (done, None)])
    assert json.loads(json.dumps(told)) == told
    assert (told['exit_code'], told['meaning'], told['restarts']) == (0, 'done', 1)
    assert (told['started'], told['ended'], told['secs']) == (1000.0, 1020.5, 20.5)
    first, second = told['attempts']
    assert first['addresses'] == {'worker:0': 'a:1', 'worker:1': 'b:2'}
    assert first['cause'] == {
        'task': 'worker:1',
        'code': 137,
        'meaning': 'killed by signal 9',
        'text': 'worker:1 ended with SIGKILL after 3.2 s',
        'reported_by': None,
        'message': None,
        'traceback': [],
        'out_of_memory': False,
    }
    assert first['tasks'][1] == {
        'name': 'worker:0',
        'life': 1,
        'code': 137,
        'signal': 'SIGKILL',
        'meaning': 'killed by signal 9',
        'began_secs': 0.0,
        'secs': 3.4,
        'how': 'killed by the supervisor',
        'message': None,
    }
    assert (first['checkpoint_before'], first['checkpoint_step'], first['steps_lost']) == (400, 500, 37)
    assert (first['decision'], first['delay_secs']) == (restarts.Reason.RESTART.value, 1.5)
    assert (second['why'], second['cause'], second['decision']) == ('done', None, None)


def test_the_report_says_what_ended_the_training():
    training = TrainingStatus.of({'state': 'ended', 'why': 'end_of_data', 'step': 47, 'max_steps': 188})
    attempt = dataclasses.replace(ATTEMPT, training=training)
    (told,) = report_file.attempts([(attempt, None)])
    assert (told['step'], told['max_steps'], told['ended_by']) == (47, 188, 'end_of_data')
