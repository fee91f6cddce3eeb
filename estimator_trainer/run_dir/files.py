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
_NO_FSYNC = (errno.EINVAL, errno.EROFS, errno.EBADF, errno.EACCES, errno.ENOTSUP)  # what a file system has none for
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
def replacing(path: str, temporary: str = '', durable: bool = False) -> Iterator[str]:
    """A temporary name for a file, which gets its own name when the context ends well, and is removed otherwise.

    Args:
        temporary: the name; '': one of this process, beside the file.
        durable: it is on the disk before it has its name, so that it is whole if the machine loses its power.

    Raises:
        OSError: it cannot be renamed, or written to the disk.
    """
    temporary = temporary or f'{path}.{os.getpid()}.tmp'
    try:
        yield temporary
        if durable:
            flush(temporary)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            removal.file(temporary, TEMPORARY)
        raise


def flush(path: str) -> None:
    """Returns when the content of a file is on the disk, or the names in a folder.

    Raises:
        OSError: it cannot be written. Not for a file system that cannot flush, such as some for folders.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FSYNC:
            raise
    finally:
        os.close(descriptor)


def flush_tree(folder: str) -> None:
    """Returns when a folder is on the disk, with all that is in it. Raises OSError as `flush`."""
    for at, _, names in os.walk(folder, topdown=False):
        for name in names:
            if not os.path.islink(path := os.path.join(at, name)):
                flush(path)
        flush(at)


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
