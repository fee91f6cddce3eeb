"""What is said of an attempt, and what report.json says: no process is started."""

import dataclasses
import json
import pathlib
import signal

import pytest

from estimator_trainer.run_dir.training_file import TrainingStatus
from estimator_trainer.supervisor.policy import restarts
from estimator_trainer.supervisor.policy.causes import Cause, GangEnd, GangEndKind, GangOutcome, TaskEnd, TaskError
from estimator_trainer.supervisor.policy.restarts import Attempt, Decision, Reason, Rules
from estimator_trainer.supervisor.reports import report_file, wording

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
        (Reason.PERMANENT, 'the same command would fail the same way: '),
        (Reason.REPEATED, 'an exception again'),
        (Reason.SPENT, '--max_restarts=3 were made without a new checkpoint'),
    ],
)
def test_why_there_is_no_restart(reason, words):
    cause = ATTEMPT.outcome.end.cause
    line = wording.no_restart(Decision(reason, 137), Rules(), cause)
    assert line.endswith('worker:1, SIGKILL') == (reason is not Reason.NEVER)
    assert line.startswith('no restart: ') and words in line


def test_a_code_may_say_that_a_restart_is_in_vain():
    line = wording.no_restart(Decision(Reason.PERMANENT, 64), Rules(), Cause('worker:1', 64))
    assert line == 'no restart: exit code 64 is permanent, the same command would fail the same way'


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
    line = wording.task_restart(FIRST, Decision(reason, 137, 2, 1.5), 3)
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


def test_steps_that_were_reported_after_the_last_look_are_lost_as_well():
    """training.json is written every two seconds; metrics.jsonl and the error file of a task may be newer."""
    attempt = dataclasses.replace(ATTEMPT, reported=600)
    assert '100 steps are lost: step 600 was done' in wording.closing(attempt, 'logs', [])
    assert dataclasses.replace(ATTEMPT, reported=520).steps_lost == 37
    ended = TaskEnd('worker:0', 1, 3.4, error=TaskError('no', step=612))
    outcome = dataclasses.replace(ATTEMPT.outcome, ended=(FIRST, ended))
    assert dataclasses.replace(attempt, outcome=outcome).steps_lost == 112


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


def test_restarts_of_single_tasks_are_counted():
    ended = (TaskEnd('worker:1', -9, 3), TaskEnd('worker:1', 1, 5, life=2), TaskEnd('worker:1', 0, 8, life=3))
    attempt = dataclasses.replace(ATTEMPT, outcome=GangOutcome(GangEnd(GangEndKind.DONE), ended, 8))
    told = report_file.document(0, 1000.0, 1020.5, [(attempt, None)])
    assert (told['restarts'], told['task_restarts']) == (0, 2)
    assert wording.end(0, 9, 0, None, alone=2) == 'end: exit code 0 after 9.0 s, 2 restart(s) of single tasks'


def test_the_report_says_what_ended_the_training():
    training = TrainingStatus.parse({'state': 'ended', 'why': 'end_of_data', 'step': 47, 'max_steps': 188})
    attempt = dataclasses.replace(ATTEMPT, training=training)
    (told,) = report_file.attempts([(attempt, None)])
    assert (told['step'], told['max_steps'], told['ended_by']) == (47, 188, 'end_of_data')
