"""Decides when a task has to end, and with which exit code. No threads, no clock, no I/O: values in, values out."""

import dataclasses
import signal

from estimator_trainer import exit_codes
from estimator_trainer.lifecycle.ending import End
from estimator_trainer.lifecycle.peers import SilentPeer
from estimator_trainer.lifecycle.probes import Answer
from estimator_trainer.run_dir import training_file

# What a task does, beside the states of training.json:
CLOSING = 'closing'  # the last step is done; the task saves it and closes the session
SERVING = 'serving'  # a parameter server

_SAME_ORDER_SECS = 2  # an engine signals all processes of a task, and then the task's supervisor signals it again
_CLOSE_SECS = 120  # closing a session takes milliseconds when nothing is left to save


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Seconds that a step may take (0: no bound), and seconds from a signal to the end of the task."""

    step: float = 1800
    grace: float = 25


@dataclasses.dataclass(frozen=True)
class TaskState:
    """What is known about a task at one moment. All times are seconds of one clock.

    Attributes:
        phase: a state of training.json, CLOSING or SERVING.
        since: when the phase began, or when the last step or the last checkpoint in it was finished.
        step: the last finished step.
        checkpoint_step: the step of the last checkpoint; None: not known, or there is none.
        nothing_saved: there is none.
        signum: the first signal that told this task to stop, SIGINT or SIGTERM.
        hung_up: that signal was SIGHUP, which counts as SIGTERM.
        insisted: a later signal told this task to stop at once.
        stopped_by: the signal that all tasks have agreed to obey.
        follows: another task received that signal, and this one did not.
        stop_asked_at: when this task learned that it has to stop. The grace period begins here.
        gone: a peer that is lost, or that has never answered.
        companion_ended: the companion of a secured task has ended.
    """

    phase: str
    since: float
    step: int | None = None
    checkpoint_step: int | None = None
    nothing_saved: bool = False
    signum: int | None = None
    hung_up: bool = False
    insisted: bool = False
    stopped_by: int | None = None
    follows: bool = False
    stop_asked_at: float | None = None
    gone: SilentPeer | None = None
    companion_ended: bool = False


def after_signal(state: TaskState, signum: int, now: float) -> TaskState:
    """The state once a signal has come to this task: SIGINT, SIGTERM or SIGHUP."""
    hung_up = signum == signal.SIGHUP
    if state.signum is None:
        stop_asked_at = now if state.stop_asked_at is None else state.stop_asked_at
        return dataclasses.replace(
            state, signum=signal.SIGTERM if hung_up else signum, hung_up=hung_up, stop_asked_at=stop_asked_at
        )
    if hung_up:  # a terminal that is closed sends it, and so does the shell in it
        return state
    first_at = now if state.stop_asked_at is None else state.stop_asked_at
    insists = signum == signal.SIGINT or now - first_at >= _SAME_ORDER_SECS
    return dataclasses.replace(state, insisted=state.insisted or insists)


def after_agreement(state: TaskState, signum: int, now: float) -> TaskState:
    """The state once all tasks have agreed to stop because one of them received `signum`."""
    stop_asked_at = now if state.stop_asked_at is None else state.stop_asked_at
    return dataclasses.replace(state, stopped_by=signum, follows=state.signum is None, stop_asked_at=stop_asked_at)


def name_of(state: TaskState, signum: int) -> str:
    """The name of a signal as its sender knows it."""
    if signum == signal.SIGINT:
        return 'Ctrl-C'
    return 'SIGHUP' if state.hung_up and signum == signal.SIGTERM else signal.Signals(signum).name


def decide_end(state: TaskState, bounds: Bounds, now: float) -> End | None:
    """How the task has to end now; None while it may go on."""
    return (
        _end_by_signal(state, bounds, now)
        or _end_without_companion(state)
        or _end_without_peer(state)
        or _end_stalled(state, bounds, now)
    )


def _end_by_signal(state: TaskState, bounds: Bounds, now: float) -> End | None:
    signum = state.signum or state.stopped_by
    if state.stop_asked_at is None or signum is None:
        return None
    name = name_of(state, signum)
    at_step = '' if state.checkpoint_step is None else f' at step {state.checkpoint_step}'
    last = f'the last checkpoint is{at_step}' if at_step else 'there is no checkpoint'
    if state.phase not in (training_file.TRAINING, CLOSING, SERVING):  # nothing is left to save
        then = f'the same command resumes{at_step}'
        if state.nothing_saved:
            then = f'{last}, so the same command begins anew'
        return End(128 + signum, f'stopped by {name}; {then}')
    is_saved = state.phase == CLOSING and state.step is not None and state.checkpoint_step == state.step
    if is_saved and (state.insisted or now - state.stop_asked_at >= bounds.grace):  # it waits for other tasks
        return End(128 + signum, f'stopped by {name}; saved{at_step}, the same command resumes', follows=state.follows)
    if state.insisted:
        return End(exit_codes.NOT_SAVED, f'stopped at once by a second {name}; {last}')
    if now - state.stop_asked_at < bounds.grace:
        return None
    if state.phase == SERVING:  # the workers save
        return End(128 + signum, f'stopped by {name}')
    return End(
        exit_codes.NOT_SAVED,
        f'the last step was not saved within {bounds.grace:g} s of {name} (--grace_secs): it takes longer, or it is '
        f'stuck; {last}',
    )


def _end_without_companion(state: TaskState) -> End | None:
    if not state.companion_ended:
        return None
    return End(
        exit_codes.COMPANION_LOST,
        'the companion of this task, which connects it with the others (--secure), has ended; restart all tasks: they '
        'resume',
    )


_CURES = {  # of a peer that somebody else answers for
    Answer.OTHER_KEY.value: 'see who listens there, and give all tasks the same --model_dir or --secure_key_file',
    Answer.OTHER_ATTEMPT.value: 'end the tasks of other attempts, and restart all tasks',
    Answer.OTHER_TASK.value: 'give all tasks the same cluster, in the same order',
    Answer.NO_TLS.value: 'its log says why; give all tasks the same --secure',
    Answer.WANTS_TLS.value: 'the first lines of this task say why; give all tasks the same --secure',
}


def _end_without_peer(state: TaskState) -> End | None:
    gone = state.gone
    if gone is None:
        return None
    if gone.refusal:
        code = exit_codes.LOST_PEER if gone.ever_seen else exit_codes.NO_PEER
        text = f'{gone.name} at {gone.address}: {gone.refusal}, for {gone.secs:.0f} s; {_CURES[gone.refusal]}'
        return End(code, text, peer=gone.name)
    if gone.ever_seen:
        code, what, cure = exit_codes.LOST_PEER, 'has not answered for', 'restart all tasks: they resume'
    else:
        code, what = exit_codes.NO_PEER, 'did not answer within'
        cure = 'start it, or give it more time (--join_timeout_secs)'
    return End(code, f'{gone.name} at {gone.address} {what} {gone.secs:.0f} s; {cure}', peer=gone.name)


def _end_stalled(state: TaskState, bounds: Bounds, now: float) -> End | None:
    if not bounds.step:
        return None
    secs = now - state.since
    if state.phase == training_file.TRAINING and secs >= bounds.step:
        return End(
            exit_codes.STALLED, f'no step was finished in {bounds.step:g} s (--step_timeout_secs); the stacks are above'
        )
    close_secs = max(_CLOSE_SECS, bounds.step)
    if state.phase == CLOSING and secs >= close_secs:
        return End(
            exit_codes.STALLED,
            f'saving the last step and closing the session took over {close_secs:g} s (--step_timeout_secs); '
            'the stacks are above',
        )
    return None
