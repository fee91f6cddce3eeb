"""Runs the child that trains or supervises a cluster. Sends what it writes while it lives, and the rest afterwards."""

import contextlib
import json
import logging
import math
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from estimator_trainer import exit_codes
from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.lifecycle import ending as task_ending
from estimator_trainer.run_dir import protocol
from estimator_trainer.storage import send_speed, sender, store
from estimator_trainer.storage.follow import Follower
from estimator_trainer.storage.lease import Lease, NoLease
from estimator_trainer.storage.mirror import Mirror
from estimator_trainer.storage.share import Share
from estimator_trainer.storage.signals import SignalRelay
from estimator_trainer.this_process.child_process import KILLED_SECS, Child

_log = logging.getLogger('estimator_trainer')
_LOOK_SECS = 0.2
_RELEASE_SECS = 5
_KILL_SECS = 120  # from SIGTERM to SIGKILL, at least, for a child that we stop
_BEYOND_GRACE_SECS = 60  # its own bound is within --grace_secs


def run(
    command: Sequence[str],
    config: TrainerConfig,
    environ: Mapping[str, str],
    share: Share,
    relay: SignalRelay,
    own_lease: Lease | NoLease,
    to: Mirror,
    following: Follower,
    folder: str,
) -> int:
    """Runs the child, and sends what it writes. The exit code."""
    patience = config.max_unpushed_secs if share.lease else math.inf
    speed = send_speed.SendSpeed(config.grace_secs, send_speed.child_grace_secs(config.grace_secs))
    with sender.Sender(to, own_lease, patience, speed) as sending, following:
        given = environment(environ, config, folder, share, own_lease)

        def must_end() -> bool:  # profiles of a worker that cannot be sent end nothing
            verdict = share.lease and sending.verdict or following.verdict
            if verdict:
                _log.warning('WARNING: %s: stops the training', verdict.why)
            return bool(verdict)

        trainer = _run(command, given, must_end, relay, kill_secs(config.grace_secs))
        sending.send_the_rest()
        until = math.inf if share.lease else time.monotonic() + config.grace_secs
        while sending.is_at_work() and not relay.time_is_up() and time.monotonic() < until:
            time.sleep(_LOOK_SECS)
        all_sent = sending.all_sent or not share.lease
        code = exit_code(trainer, all_sent, sending.verdict, following.verdict)
        text = _end(config.model_dir, folder, to, sending, code, share)
        if sending.all_sent:
            if not code or to.newest:  # else the last line is the error
                _log.info('%s', text)
            give_back(own_lease)
        else:
            text = f'{text} {exit_codes.after_message(code)}'
            print(text, file=sys.stderr, flush=True)
            if code != trainer:  # the trainer has not said so
                task_ending.record(task_ending.End(code, text), share.task or 'trainer', None, environ)
    return code


def kill_secs(grace_secs: float) -> float:
    """From SIGTERM to SIGKILL for a child that we stop. It may save for as long as --grace_secs say."""
    return max(_KILL_SECS, grace_secs + _BEYOND_GRACE_SECS)


def _run(
    command: Sequence[str],
    environ: dict[str, str],
    must_end: Callable[[], bool],
    relay: SignalRelay,
    kill_after_secs: float = _KILL_SECS,
) -> int:
    """Runs the child; its exit code. It ends itself when it is told to stop, within a bound of its own.

    Args:
        must_end: asked again and again; from the first time on that it says so, the child is told to stop.
        kill_after_secs: a child that is told to stop, and has not ended after so long, is killed.

    Raises:
        OSError: it cannot be started.
    """
    kill_at: float | None = None
    child = Child(command, env=environ, stdin=None, ignored=(protocol.PROFILE_SIGNAL,))
    while (code := child.wait(_LOOK_SECS)) is None:
        if kill_at is None and must_end():
            child.send(signal.SIGTERM)
            kill_at = time.monotonic() + kill_after_secs
        if kill_at and time.monotonic() >= kill_at:
            child.kill()
        if kill_at and time.monotonic() >= kill_at + KILLED_SECS:  # the kernel does not let it go
            return 128 + signal.SIGKILL
        while relay.pending:
            child.send(relay.pending.pop(0))
    return code if code >= 0 else 128 - code


def exit_code(trainer: int, all_sent: bool, verdict: sender.RunEnd | None, starved: sender.RunEnd | None = None) -> int:
    """The exit code of a run in a store. Pure.

    Args:
        trainer: the exit code of the trainer.
        all_sent: the store holds all that the run has written.
        verdict: of what sends.
        starved: of what fetches while the run lives.
    """
    if verdict and verdict.code == exit_codes.MODEL_DIR_TAKEN:
        return verdict.code
    permanent = trainer != exit_codes.OK and not exit_codes.retryable(trainer)
    if all_sent and starved and exit_codes.was_stopped(trainer):
        return starved.code
    if all_sent or permanent:
        return trainer
    return verdict.code if verdict else exit_codes.NOT_SENT


def environment(
    environ: Mapping[str, str], config: TrainerConfig, folder: str, share: Share, own_lease: Lease | NoLease
) -> dict[str, str]:
    """The environment of the child. By it config.json says what the user gave, not what we give to the child, and the
    chief's training.json has the generation of its lease, by which an evaluator knows it."""
    given = {name: getattr(config, name) for name in ('model_dir', 'scratch_dir', 'grace_secs')}
    entry = {'folder': folder, 'flags': given, 'is_copy': bool(share.task)}
    generation = {protocol.GENERATION: own_lease.gang} if share.task and share.role == 'chief' else {}
    return {**environ, protocol.STORE: json.dumps(entry), **generation}


def _end(url: str, folder: str, to: Mirror, sending: sender.Sender, code: int, share: Share) -> str:
    """What was sent, and what was not."""
    checkpoint, saves = to.newest or 'no checkpoint', share.role == 'chief'
    if sending.all_sent:
        what = f': {checkpoint}' if saves else f' that {share.task} has written'
        return f'{url} holds everything{what}; {megabytes(to.sent_bytes)} sent'
    why = f'{sending.verdict.why}; ' if sending.verdict else ''
    if not saves:
        return f'{url}: not everything that {share.task} has written was sent: {why}the rest is in {folder}'
    lost = code == exit_codes.MODEL_DIR_TAKEN
    then = 'is no part of the run any more' if lost else 'is sent by the same command on this machine'
    return f'{url}: not everything was sent: {why}{checkpoint} is the newest that was. What is in {folder} {then}'


def give_back(own_lease: Lease | NoLease) -> None:
    """Gives the lease back, or what may be one, within a bounded time."""
    task_ending.within(_RELEASE_SECS, _release, own_lease)


def _release(own_lease: Lease | NoLease) -> None:
    with contextlib.suppress(store.StoreError):
        own_lease.release()


def megabytes(size: int) -> str:
    return f'{size / 1e6:.1f} MB'
