"""Files of which this process is the only writer, never opened through a symbolic link.

Whoever may write into the folder could put a link there under the name of a file that we are about to
write, and so have us write over a file of ours somewhere else.
"""

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import IO, Any

from estimator_trainer.run_dir import removal

_EVERYWHERE = os.O_NOFOLLOW | os.O_CLOEXEC
_APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND | _EVERYWHERE
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | _EVERYWHERE


TEMPORARY = removal.Named(r'.*\.tmp')


def create(path: str, mode: str = 'w') -> IO[Any]:
    """A new temporary file, whose name ends with .tmp, open for writing. One that was there, of an earlier process, is
    removed.

    Raises:
        OSError: it cannot be made.
    """
    removal.file(path, TEMPORARY)
    return _open(path, mode, _NEW)


@contextlib.contextmanager
def replacing(path: str, temporary: str = '') -> Iterator[str]:
    """A temporary name for a file, which gets its own name when the context ends well, and is removed otherwise.

    Args:
        temporary: the name; '': one of this process, beside the file.

    Raises:
        OSError: it cannot be renamed.
    """
    temporary = temporary or f'{path}.{os.getpid()}.tmp'
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            removal.file(temporary, TEMPORARY)
        raise


def append(path: str) -> IO[bytes]:
    """A file to append bytes to, and to read. It is not buffered: a write returns how much went through.

    Raises:
        OSError: it cannot be opened, or is a symbolic link.
    """
    return _open(path, 'ab+', _APPEND, buffering=0)


def _open(path: str, mode: str, flags: int, buffering: int = -1) -> IO[Any]:
    encoding = None if 'b' in mode else 'utf-8'
    try:
        return open(path, mode, buffering, encoding=encoding, opener=lambda name, _: os.open(name, flags, 0o666))
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK) and os.path.islink(path):
            raise OSError(
                error.errno,
                'is a symbolic link, which this program does not write through; '
                'look who has put it there, and remove it',
                path,
            ) from None
        raise
