"""lifecycle.end_policy: when a task ends, and with which code. No thread, no process, no clock."""

import signal

import pytest

from estimator_trainer import exit_codes
from estimator_trainer.lifecycle import end_policy
from estimator_trainer.lifecycle.end_policy import CLOSING, SERVING, Bounds, TaskState, decide_end
from estimator_trainer.lifecycle.peers import SilentPeer
from estimator_trainer.lifecycle.probes import Answer
from estimator_trainer.run_dir import training_file

INT, TERM, HUP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
STARTING, TRAINING, EVALUATING = training_file.STARTING, training_file.TRAINING, training_file.EVALUATING
STEP, GRACE = 1800, 25
LONG = 10**9


def ends(phase, secs=0, signals=(), agreed=(), step_done=None, checkpoint_step=None, **more):
    """The End of a task whose phase began at second 0.

    Args:
        signals, agreed: (signal, second) that came to this task, or that all tasks agreed to obey; in order of time.
    """
    about = {name: more.pop(name) for name in ('gone', 'nothing_saved') if name in more}
    state = TaskState(phase, since=0, step=step_done, checkpoint_step=checkpoint_step, **about)
    told = [(second, end_policy.after_signal, signum) for signum, second in signals]
    told += [(second, end_policy.after_agreement, signum) for signum, second in agreed]
    for second, after, signum in sorted(told, key=lambda one: one[0]):
        state = after(state, signum, second)
    return end_policy.decide_end(state, Bounds(**{'step': STEP, 'grace': GRACE, **more}), secs)


def code(*args, **kwargs):
    end = ends(*args, **kwargs)
    return end and end.code


@pytest.mark.parametrize('phase', [STARTING, EVALUATING])
@pytest.mark.parametrize('signum, exit_code', [(INT, 130), (TERM, 143), (HUP, 143)])
def test_nothing_is_left_to_save_so_a_signal_ends_at_once(phase, signum, exit_code):
    assert code(phase, signals=[(signum, 0)]) == exit_code
    agreed = INT if signum == INT else TERM
    assert code(phase, agreed=[(agreed, 0)]) == exit_code


@pytest.mark.parametrize('phase', [TRAINING, CLOSING])
@pytest.mark.parametrize('signum', [INT, TERM, HUP])
def test_training_has_the_grace_period_to_obey_a_signal(phase, signum):
    signals = [(signum, 5)]
    assert code(phase, 5, signals) is None
    assert code(phase, 5 + GRACE - 0.1, signals) is None
    assert code(phase, 5 + GRACE, signals) == 196


@pytest.mark.parametrize(
    'step_done, checkpoint_step, exit_code', [(9, 9, 143), (0, 0, 143), (9, 8, 196), (9, None, 196)]
)
@pytest.mark.parametrize('insists', [[], [(TERM, 3)]])
def test_a_task_that_has_saved_its_last_step_and_waits_for_others_loses_nothing(
    step_done, checkpoint_step, exit_code, insists
):
    told = dict(signals=[(TERM, 0), *insists], step_done=step_done, checkpoint_step=checkpoint_step)
    assert code(CLOSING, GRACE - 0.1, **told) == (exit_code if insists else None)  # the others may come
    assert code(CLOSING, GRACE, **told) == exit_code
    assert code(TRAINING, GRACE, **told) == 196  # it is within a step


@pytest.mark.parametrize('signum, exit_code', [(INT, 130), (TERM, 143), (HUP, 143)])
def test_a_parameter_server_waits_for_its_workers_and_has_nothing_to_save(signum, exit_code):
    assert code(SERVING, GRACE - 0.1, [(signum, 0)]) is None
    assert code(SERVING, GRACE, [(signum, 0)]) == exit_code


@pytest.mark.parametrize('phase', [TRAINING, CLOSING, SERVING])
@pytest.mark.parametrize(
    'signals, exit_code',
    [
        ([(TERM, 0), (TERM, 1.9)], None),  # an engine, and the supervisor after it
        ([(TERM, 0), (TERM, 2)], 196),
        ([(TERM, 0), (INT, 0.1)], 196),
        ([(INT, 0), (INT, 0.1)], 196),
        ([(INT, 0), (TERM, 0.1)], None),
        ([(TERM, 0), (TERM, 1), (TERM, 3)], 196),
        ([(TERM, 0), (TERM, 3), (TERM, 3.1)], 196),  # what insisted goes on to insist
        ([(HUP, 0), (HUP, 3)], None),  # a closed terminal, and the shell in it
        ([(TERM, 0), (HUP, 3)], None),
        ([(HUP, 0), (TERM, 2)], 196),
    ],
)
def test_a_second_signal_ends_at_once(phase, signals, exit_code):
    assert code(phase, signals[-1][1], signals) == exit_code


def test_the_first_signal_is_kept():
    state = end_policy.after_signal(TaskState(training_file.TRAINING, since=0), TERM, 3)
    assert (state.signum, state.hung_up, state.stop_asked_at, state.insisted) == (TERM, False, 3, False)
    state = end_policy.after_signal(state, INT, 4)
    assert (state.signum, state.hung_up, state.stop_asked_at, state.insisted) == (TERM, False, 3, True)


def test_sighup_counts_as_sigterm_and_keeps_its_name():
    state = end_policy.after_signal(TaskState(training_file.TRAINING, since=0), HUP, 3)
    assert (state.signum, state.hung_up) == (TERM, True)
    assert [end_policy.name_of(state, signum) for signum in (TERM, INT)] == ['SIGHUP', 'Ctrl-C']
    assert end_policy.name_of(TaskState(training_file.TRAINING, since=0), TERM) == 'SIGTERM'


@pytest.mark.parametrize('signals, follows', [([], True), ([(TERM, 1)], False)])
def test_a_task_follows_when_only_others_were_told(signals, follows):
    state = TaskState(training_file.TRAINING, since=0)
    for signum, now in signals:
        state = end_policy.after_signal(state, signum, now)
    state = end_policy.after_agreement(state, TERM, 2)
    assert (state.stopped_by, state.follows) == (TERM, follows)
    assert state.signum == (None if follows else TERM)


def test_a_task_that_was_told_by_another_obeys_in_the_same_time():
    told = dict(agreed=[(TERM, 0)], signals=[(TERM, 5)])  # its own comes late: no second one
    assert code(TRAINING, 5, **told) is None
    assert code(TRAINING, GRACE - 0.1, **told) is None
    assert code(TRAINING, GRACE, **told) == 196


def test_time_runs_from_the_signal_on_and_not_from_the_agreement():
    assert code(TRAINING, GRACE, signals=[(TERM, 0)], agreed=[(TERM, 20)]) == 196


@pytest.mark.parametrize('phase', [STARTING, TRAINING, CLOSING, EVALUATING, SERVING])
@pytest.mark.parametrize('ever_seen, exit_code', [(True, 193), (False, 194)])
def test_a_peer_that_is_gone_ends_every_phase(phase, ever_seen, exit_code):
    gone = SilentPeer('worker:0', 'host:1', ever_seen, 31.4)
    end = ends(phase, gone=gone)
    assert (end.code, end.peer) == (exit_code, 'worker:0')
    assert 'worker:0 at host:1' in end.message and '31 s' in end.message
    assert ('restart' if ever_seen else '--join_timeout_secs') in end.message


@pytest.mark.parametrize(
    'phase, secs, exit_code',
    [
        (STARTING, 0, 143),  # told to stop, which counts more
        (TRAINING, 0, 193),  # within the grace period
        (TRAINING, GRACE, 196),
    ],
)
def test_a_signal_and_a_lost_peer(phase, secs, exit_code):
    assert code(phase, secs, [(TERM, 0)], gone=SilentPeer('worker:0', 'host:1', True, 31)) == exit_code


@pytest.mark.parametrize(
    'phase, step, secs, exit_code',
    [
        (TRAINING, STEP, STEP - 0.1, None),
        (TRAINING, STEP, STEP, 195),
        (TRAINING, 0, LONG, None),
        (STARTING, STEP, LONG, None),
        (EVALUATING, STEP, LONG, None),
        (SERVING, STEP, LONG, None),
        (CLOSING, STEP, STEP - 0.1, None),  # the last checkpoint is written now
        (CLOSING, STEP, STEP, 195),
        (CLOSING, 0, LONG, None),
        (CLOSING, 10, 119, None),
        (CLOSING, 10, 120, 195),
    ],
)
def test_a_step_that_does_not_end(phase, step, secs, exit_code):
    assert code(phase, secs, step=step) == exit_code


INSISTS, LATE = dict(signals=[(TERM, 0), (TERM, 3)]), dict(secs=GRACE, signals=[(TERM, 0)])


@pytest.mark.parametrize(
    'phase, known, message',
    [
        (STARTING, dict(signals=[(TERM, 0)]), 'stopped by SIGTERM; the same command resumes'),
        (
            EVALUATING,
            dict(signals=[(HUP, 0)], checkpoint_step=6),
            'stopped by SIGHUP; the same command resumes at step 6',
        ),
        (STARTING, dict(agreed=[(INT, 0)]), 'stopped by Ctrl-C; the same command resumes'),
        (
            STARTING,
            dict(signals=[(INT, 0)], nothing_saved=True),
            'stopped by Ctrl-C; there is no checkpoint, so the same command begins anew',
        ),
        (TRAINING, INSISTS, 'stopped at once by a second SIGTERM; there is no checkpoint'),
        (
            CLOSING,
            dict(INSISTS, checkpoint_step=6),
            'stopped at once by a second SIGTERM; the last checkpoint is at step 6',
        ),
        (
            TRAINING,
            dict(LATE, checkpoint_step=6),
            'the last step was not saved within 25 s of SIGTERM (--grace_secs): it takes longer, or it is stuck; '
            'the last checkpoint is at step 6',
        ),
        (SERVING, LATE, 'stopped by SIGTERM'),
        (
            TRAINING,
            dict(gone=SilentPeer('ps:0', 'host:1', True, 31.4)),
            'ps:0 at host:1 has not answered for 31 s; restart all tasks: they resume',
        ),
        (
            TRAINING,
            dict(gone=SilentPeer('ps:0', 'host:1', False, 31.4)),
            'ps:0 at host:1 did not answer within 31 s; start it, or give it more time (--join_timeout_secs)',
        ),
        (TRAINING, dict(secs=60, step=60), 'no step was finished in 60 s (--step_timeout_secs); the stacks are above'),
        (
            CLOSING,
            dict(secs=120, step=60),
            'saving the last step and closing the session took over 120 s (--step_timeout_secs); the stacks are above',
        ),
    ],
)
def test_messages(phase, known, message):
    assert ends(phase, **known).message == message


@pytest.mark.parametrize('refusal', [answer for answer in Answer if answer.is_refusal])
@pytest.mark.parametrize('seen, code', [(True, exit_codes.LOST_PEER), (False, exit_codes.NO_PEER)])
def test_a_peer_that_refuses_is_named_as_such_and_not_as_lost(refusal, seen, code):
    gone = SilentPeer('worker:1', 'b:2222', seen, 12.4, refusal.value)
    end = decide_end(TaskState(training_file.TRAINING, since=0, gone=gone), Bounds(), now=1)
    assert end.code == code and end.peer == 'worker:1'
    assert end.message.startswith(f'worker:1 at b:2222: {refusal.value}, for 12 s; ')
    assert 'has not answered' not in end.message


def test_a_task_ends_with_its_companion():
    end = decide_end(TaskState(training_file.TRAINING, since=0, companion_ended=True), Bounds(), now=1)
    assert end.code == exit_codes.COMPANION_LOST
    assert exit_codes.retryable(end.code)
    assert 'the companion of this task' in end.message
