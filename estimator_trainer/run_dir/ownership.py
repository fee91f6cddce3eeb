"""Who trains in a model_dir, who evaluates what is trained there, and who supervises that: one process each, which
holds a lock."""

import contextlib
import logging
import os
from collections.abc import Iterator

from estimator_trainer import exit_codes
from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import file_names, files_of_others, locks

_log = logging.getLogger('estimator_trainer')
# Seconds to wait for a holder on this machine. Engines start the tasks of a cluster again while the last ones still
# end, perhaps in other containers: as long as one waits for a holder on another machine.
ALONE_SECS, OF_CLUSTER_SECS = 5, 40
_STALE = (
    ' If that machine is gone for good and its file system keeps its locks (NFS 3), make sure that nothing writes '
    'there, and remove %s.'
)
_ASKED_SECS = 0.3  # whoever asks whether a lock is held has it for some microseconds


class TakenElsewhere(Exception):
    """A process of another machine trains in the model_dir, or evaluates what is trained there."""

    exit_code = exit_codes.MODEL_DIR_TAKEN


@contextlib.contextmanager
def claim(model_dir: str, wait_secs: float = ALONE_SECS, elsewhere_secs: float = OF_CLUSTER_SECS) -> Iterator[None]:
    """Holds the model_dir as its only trainer. The kernel gives it back however this process ends.

    Raises:
        UsageError: another process trains in it, and goes on doing so for `wait_secs`.
        TakenElsewhere: the same, for `elsewhere_secs`, on another machine. One that is lost may go on until it
            finds out (--lost_peer_secs), or until the file system takes its lock away.
    """
    with lock(model_dir, file_names.TRAINER_LOCK) as trainer_lock:
        take(trainer_lock, model_dir, 'trains there', wait_secs, elsewhere_secs)
        yield


def lock(model_dir: str, name: str) -> locks.Lock:
    """A lock file of the model_dir, which is made if need be. Not taken yet.

    Raises:
        UsageError: it cannot be made, or something else is there.
    """
    path = os.path.join(model_dir, name)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return locks.Lock(path)
    except locks.NotALock as error:
        raise UsageError(f'--model_dir={model_dir}: {error}.') from None
    except OSError as error:
        raise UsageError(f'--model_dir={model_dir}: {_lock_problem(path, error, "name another folder")}.') from error


def _lock_problem(path: str, error: OSError, cure: str) -> str:
    """Why a lock file cannot be opened, and the cure: it may be another user's, in a folder that both may write."""
    if isinstance(error, PermissionError) and os.path.isfile(path):
        return f'{path} is of another user ({error.strerror}). Have it made writable (chmod a+w), or {cure}'
    return f'{error.strerror}; {cure}'


def take(
    lock: locks.Lock, model_dir: str, does: str, wait_secs: float = ALONE_SECS, elsewhere_secs: float = OF_CLUSTER_SECS
) -> None:
    """Takes a lock of the model_dir.

    Args:
        does: what its holder does, such as 'trains there'.

    Raises:
        UsageError, TakenElsewhere: as `claim`.
    """

    def say(holder: locks.Holder, secs: float, bound: float) -> None:
        _log.info('--model_dir=%s: %s %s: waiting for its end, at most %g s', model_dir, holder, does, bound)

    try:
        lock.wait(locks.patience(wait_secs, elsewhere_secs), say)
    except locks.Held as held:
        is_local = held.holder.is_on_this_machine
        expires = '' if is_local else _STALE % lock.path
        raise (UsageError if is_local else TakenElsewhere)(
            f'--model_dir={model_dir}: {held.holder} {does}. Wait for it, stop it, or name another folder.{expires}'
        ) from None
    except locks.NotALock as error:
        raise UsageError(f'--model_dir={model_dir}: {error}.') from None
    except OSError as error:
        raise UsageError(
            f'--model_dir={model_dir}: cannot be locked against a second process ({error.strerror}); '
            'name a folder on a file system that has locks.'
        ) from error


@contextlib.contextmanager
def supervise(folder: str, flag: str = '--model_dir') -> Iterator[None]:
    """Holds a folder, which is made if need be, as its only supervisor. The kernel gives it back however we end.

    Args:
        flag: that named the folder.

    Raises:
        UsageError: another supervisor has it, it holds files of others that have names of ours, or it cannot be
            written.
    """
    files_of_others.refuse_in_run(folder, flag)
    with contextlib.ExitStack() as stack:
        try:
            os.makedirs(folder, exist_ok=True)
            lock = stack.enter_context(locks.Lock(os.path.join(folder, file_names.SUPERVISOR_LOCK)))
            free = _take_if_free(lock)
        except locks.NotALock as error:
            raise UsageError(f'{flag}={folder}: {error}') from None
        except OSError as error:
            path = os.path.join(folder, file_names.SUPERVISOR_LOCK)
            why = _lock_problem(path, error, 'give a folder that can be written')
            raise UsageError(f'{flag}={folder}: {why}') from None
        if not free:
            holder = lock.holder()
            where = '' if holder.is_on_this_machine else f' on {holder.machine}'
            raise UsageError(
                f'{flag}={folder}: another run_local_cluster.sh (pid {holder.pid}{where}) is at work there; wait for '
                'its end, or give another folder'
            )
        yield


def take_unless_held(lock: locks.Lock) -> bool:
    """Whether the lock is ours now. Whoever only asks whether it is held does not count.

    Raises:
        NotALock, OSError: as `locks.Lock.take`.
    """
    try:
        lock.wait(lambda holder: _ASKED_SECS)
        return True
    except locks.Held:
        return False


def _take_if_free(lock: locks.Lock) -> bool:
    try:
        return take_unless_held(lock)
    except locks.NotALock:
        raise
    except OSError:  # a file system without locks: nobody there can be told apart
        return True
