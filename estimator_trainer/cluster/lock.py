"""One supervisor for a model_dir at a time."""

import contextlib
import fcntl
import os
from collections.abc import Iterator

from estimator_trainer.cluster.usage import UsageError

LOCK_FILE = '.cluster.lock'


@contextlib.contextmanager
def hold(model_dir: str) -> Iterator[None]:
    """Makes the folder if need be, and has it for us alone. The kernel gives it up when we die.

    Raises:
      UsageError: another supervisor has it, or it cannot be written.
    """
    path = os.path.join(model_dir, LOCK_FILE)
    try:
        os.makedirs(model_dir, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)  # not inherited by tasks
    except OSError as error:
        raise UsageError(
            f'--model_dir={model_dir}: {error.strerror}; give a folder that can be written'
        ) from None
    try:
        _lock(file, model_dir)
        yield
    finally:
        os.close(file)


def _lock(file: int, model_dir: str) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(file, 20, 0).decode('ascii', 'replace').strip()
        raise UsageError(
            f'--model_dir={model_dir}: another run_local_cluster.sh'
            f'{f" (pid {holder})" if holder else ""} is at work there; wait for its end, or give '
            'another folder'
        ) from None
    except OSError:  # a file system without locks: nobody there can be told apart
        return
    with contextlib.suppress(OSError):  # the number is only for the message above
        os.ftruncate(file, 0)
        os.pwrite(file, f'{os.getpid()}\n'.encode(), 0)
