"""Runs a task or a local cluster whose model_dir is in a store: fetches the run, starts it, and sends it."""

import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from estimator_trainer import exit_codes
from estimator_trainer.config import urls
from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.errors import UsageError
from estimator_trainer.lifecycle import ending as task_ending
from estimator_trainer.run_dir import file_errors, ownership, protocol
from estimator_trainer.storage import (
    child,
    connection,
    fetch,
    follow,
    lease,
    mirror,
    scratch_state,
    send_speed,
    signals,
    store,
)
from estimator_trainer.storage.share import Share
from estimator_trainer.this_process import log

_log = logging.getLogger('estimator_trainer')
_PROGRAM = (sys.executable, '-m', 'estimator_trainer')
_FETCH_TRIES = 3
_ALL = Share()
_T = TypeVar('_T')


def trainer_flags(config: TrainerConfig, environ: Mapping[str, str], share: Share = _ALL) -> list[str]:
    """What is to be added to the flags so that the trainer works in the scratch folder."""
    scratch = urls.scratch_dir(config.model_dir, environ, config.scratch_dir, share.folder)
    return [
        f'--model_dir={mirror.run_folder(scratch)}',
        '--scratch_dir=',
        f'--grace_secs={send_speed.child_grace_secs(config.grace_secs)}',
    ]


def run(arguments: Sequence[str], config: TrainerConfig, environ: Mapping[str, str], share: Share = _ALL) -> int:
    """Runs `python -m estimator_trainer ARGUMENTS`, which works in the scratch folder of the config's URL.

    Returns:
        The exit code.
    """
    log.set_up()
    with signals.SignalRelay(config.grace_secs) as relay:
        return _run_with_signals(arguments, config, environ, share, relay)


def _run_with_signals(
    arguments: Sequence[str],
    config: TrainerConfig,
    environ: Mapping[str, str],
    share: Share,
    relay: signals.SignalRelay,
) -> int:
    url = config.model_dir
    scratch = urls.scratch_dir(url, environ, config.scratch_dir, share.folder)
    try:
        with _scratch(url, scratch, relay):
            return _run(arguments, config, environ, scratch, share, relay)
    except UsageError as error:
        return _fail(exit_codes.USAGE, str(error), environ, share)
    except ownership.TakenElsewhere as error:
        return _fail(error.exit_code, str(error), environ, share)
    except lease.LeaseTaken as error:
        text = f'--model_dir={url}: {share.holder} on {error} is at work there. Wait for it, or stop it.'
        return _fail(exit_codes.MODEL_DIR_TAKEN, text, environ, share)
    except store.StoreUnavailable as error:
        return _fail(
            exit_codes.FILES_AWAY, f'--model_dir={url}: {error}; the same command may work later.', environ, share
        )
    except store.StoreError as error:
        return _fail(exit_codes.CANNOT_WRITE, f'--model_dir={url}: {error}', environ, share)
    except OSError as error:
        return _fail(file_errors.exit_code(error.errno), f'--scratch_dir={scratch}: {error}', environ, share)
    except signals.Stopped as stopped:
        _log.info('stopped before the training had begun')
        return stopped.code


def _fail(code: int, text: str, environ: Mapping[str, str], share: Share) -> int:
    print(f'error: {text}', file=sys.stderr)
    task_ending.record(task_ending.End(code, text), share.task or 'trainer', None, environ)
    return code


@contextlib.contextmanager
def _scratch(url: str, scratch: str, relay: signals.SignalRelay) -> Iterator[None]:
    """A context in which the scratch folder is this process's alone."""
    try:
        os.makedirs(scratch, mode=0o700, exist_ok=True)
    except OSError as error:
        if error.errno in file_errors.MAY_PASS:
            raise
        raise UsageError(f'--scratch_dir={scratch}: {error.strerror}; name another folder.') from None
    with contextlib.ExitStack() as stack:
        lock = stack.enter_context(ownership.lock(scratch, '.lock'))
        try:
            # The last process may be sending its last checkpoint.
            relay.wait_for(lambda: ownership.take(lock, url, 'trains there', ownership.OF_CLUSTER_SECS))
            yield
        finally:
            if relay.is_waited_for:  # it may still write there: the folder is held until this process has ended
                stack.pop_all()


def _run(
    arguments: Sequence[str],
    config: TrainerConfig,
    environ: Mapping[str, str],
    scratch: str,
    share: Share,
    relay: signals.SignalRelay,
) -> int:
    url, folder = config.model_dir, mirror.run_folder(scratch)
    os.makedirs(folder, exist_ok=True)
    known = scratch_state.ScratchState(scratch, url)
    if known.is_new:
        _refuse_what_others_have(scratch, known)
    remote = relay.wait_for(lambda: connection.connect(url, environ))
    if not remote.conditional:
        _log.warning(
            'WARNING: %s does not keep to conditions of writes: nothing prevents two trainers from training there', url
        )
    own_lease = _lease(remote, config, environ, share)
    with contextlib.ExitStack() as stack:
        with _given_back_on_error(own_lease):
            said = '%s: %s on %s may be at work there: waits %g s for its sign'

            def say(owner: str, secs: float) -> None:
                _log.info(said, url, share.holder, owner, secs)

            before = relay.wait_for(lambda: own_lease.acquire(*known.ended, say=say, claim=known.claim))
            stack.enter_context(own_lease.kept())
            if known.token and not known.continues(before):
                _log.info('%s: somebody else was at work there, or removed it: the scratch folder is fetched anew', url)
            to, following = _fetch(remote, own_lease, scratch, known, known.continues(before), config, share, relay)
            relay.check()
        return child.run([*_PROGRAM, *arguments], config, environ, share, relay, own_lease, to, following, folder)


def _refuse_what_others_have(scratch: str, known: scratch_state.ScratchState) -> None:
    if known.is_damaged:
        raise UsageError(
            f'--scratch_dir={scratch}: {known.path} is damaged, so nobody knows what the store has of the run there. '
            'Move the folder away: the run is fetched again. A checkpoint that was not sent is in that folder alone.'
        )
    for each in (mirror.run_folder(scratch), mirror.links_folder(scratch)):
        if os.path.lexists(each) and (os.path.islink(each) or not os.path.isdir(each) or os.listdir(each)):
            raise UsageError(f'--scratch_dir={scratch}: {each} holds something else; name another folder.')
    if known.is_of_others:
        raise UsageError(f'--scratch_dir={scratch}: {known.path} is of another program; name another folder.')


def _fetch(
    remote: store.Store,
    own_lease: lease.Lease | lease.NoLease,
    scratch: str,
    known: scratch_state.ScratchState,
    continues: bool,
    config: TrainerConfig,
    share: Share,
    relay: signals.SignalRelay,
) -> tuple[mirror.Mirror, follow.Follower]:
    """Fetches what the task needs at its start. What sends and what fetches from then on."""
    folder, began = mirror.run_folder(scratch), time.monotonic()
    newest, fetched = relay.wait_for(lambda: _patiently(lambda: fetch.fetch(remote, folder, known, share, continues)))
    known.hold(own_lease.token)
    following = follow.Follower(remote, folder, share, config)
    relay.wait_for(lambda: _patiently(following.begin))
    fetched += following.fetched_bytes
    to_save = send_speed.child_grace_secs(config.grace_secs)
    expected = send_speed.expectation(config.grace_secs, to_save, fetched, time.monotonic() - began)
    _log.info(
        '%s: %s, %s fetched; works in %s; %s',
        *(remote.url, newest or following.newest or 'no checkpoint yet', child.megabytes(fetched), folder, expected),
    )
    to = mirror.Mirror(remote, own_lease, scratch, known, newest, config.keep_checkpoints, share)
    relay.wait_for(to.look)
    return to, following


def _lease(
    remote: store.Store, config: TrainerConfig, environ: Mapping[str, str], share: Share
) -> lease.Lease | lease.NoLease:
    if not share.lease:
        return lease.NoLease()
    return lease.Lease(remote, config.lost_peer_secs, share, environ.get(protocol.GENERATION, ''))


@contextlib.contextmanager
def _given_back_on_error(own_lease: lease.Lease | lease.NoLease) -> Iterator[None]:
    """A context that gives the lease back, or what may be one, if it is left by an error. Nothing is sent yet."""
    try:
        yield
    except BaseException:
        child.give_back(own_lease)
        raise


def _patiently(function: Callable[[], _T]) -> _T:
    for _ in range(_FETCH_TRIES - 1):
        with contextlib.suppress(store.StoreUnavailable):
            return function()
    return function()
