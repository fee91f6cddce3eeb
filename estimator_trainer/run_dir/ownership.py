"""Who trains in a model_dir, and who evaluates what is trained there: one process each, which holds a lock."""

import contextlib
import logging
import os

from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import locks

_log = logging.getLogger('estimator_trainer')
TRAINER_LOCK = '.trainer.lock'


class TakenElsewhere(Exception):
    """A process of another machine trains in the model_dir, or evaluates what is trained there."""


@contextlib.contextmanager
def claim(model_dir: str, wait_secs: float = 5, elsewhere_secs: float = 40):
    """Holds the model_dir as its only trainer. The kernel gives it back however this process ends.

    Raises:
        UsageError: another process trains in it, and goes on doing so for `wait_secs`.
        TakenElsewhere: the same, for `elsewhere_secs`, on another machine. One that is lost may go on until it
            finds out (--lost_peer_secs), or until the file system takes its lock away.
    """
    with lock(model_dir, TRAINER_LOCK) as trainer_lock:
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
        raise UsageError(f'--model_dir={model_dir}: {error.strerror}; name another folder.') from error


def take(lock: locks.Lock, model_dir: str, does: str, wait_secs: float = 5, elsewhere_secs: float = 40) -> None:
    """Takes a lock of the model_dir.

    Args:
        does: what its holder does, such as 'trains there'.

    Raises:
        UsageError, TakenElsewhere: as `claim`.
    """

    def say(holder, secs, bound):
        if not holder.here:
            _log.info('--model_dir=%s: %s %s: waiting for its end, at most %g s', model_dir, holder, does, bound)

    try:
        lock.wait(locks.patience(wait_secs, elsewhere_secs), say)
    except locks.Held as held:
        raise (UsageError if held.holder.here else TakenElsewhere)(
            f'--model_dir={model_dir}: {held.holder} {does}. Wait for it, stop it, or name another folder.'
        ) from None
    except locks.NotALock as error:
        raise UsageError(f'--model_dir={model_dir}: {error}.') from None
    except OSError as error:
        raise UsageError(
            f'--model_dir={model_dir}: cannot be locked against a second process ({error.strerror}); '
            'name a folder on a file system that has locks.'
        ) from error
