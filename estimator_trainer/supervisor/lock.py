"""One supervisor for a model_dir at a time."""

import contextlib
import os
from collections.abc import Iterator

from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import locks

LOCK_FILE = '.cluster.lock'


@contextlib.contextmanager
def hold(model_dir: str, flag: str = '--model_dir') -> Iterator[None]:
    """Makes the folder if need be, and has it for us alone. The kernel gives it up when we die.

    Args:
      flag: that named the folder.

    Raises:
      UsageError: another supervisor has it, or it cannot be written.
    """
    with contextlib.ExitStack() as stack:
        try:
            os.makedirs(model_dir, exist_ok=True)
            lock = stack.enter_context(locks.Lock(os.path.join(model_dir, LOCK_FILE)))
        except locks.NotALock as error:
            raise UsageError(f'{flag}={model_dir}: {error}') from None
        except OSError as error:
            raise UsageError(f'{flag}={model_dir}: {error.strerror}; give a folder that can be written') from None
        _take(lock, model_dir, flag)
        yield


def _take(lock: locks.Lock, model_dir: str, flag: str) -> None:
    try:
        if lock.take():
            return
    except locks.NotALock as error:
        raise UsageError(f'{flag}={model_dir}: {error}') from None
    except OSError:  # a file system without locks: nobody there can be told apart
        return
    holder = lock.holder()
    raise UsageError(
        f'{flag}={model_dir}: another run_local_cluster.sh (pid {holder.pid}'
        f'{"" if holder.here else f" on {holder.machine}"}) is at work there; wait for its end, or '
        'give another folder'
    )
