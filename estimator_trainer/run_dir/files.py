"""Files of which this process is the only writer, never opened through a symbolic link.

Whoever may write into the folder could put a link there under the name of a file that we are about to
write, and so have us write over a file of ours somewhere else.
"""

import contextlib
import errno
import os

_EVERYWHERE = os.O_NOFOLLOW | os.O_CLOEXEC
_APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND | _EVERYWHERE
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | _EVERYWHERE


def create(path: str, mode: str = 'w'):
    """A new file, open for writing. One that was there, of an earlier process, is removed.

    Raises:
        OSError: it cannot be made.
    """
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    return _open(path, mode, _NEW)


def append(path: str):
    """A file to append bytes to, and to read. It is not buffered: a write returns how much went through.

    Raises:
        OSError: it cannot be opened, or is a symbolic link.
    """
    return _open(path, 'ab+', _APPEND, buffering=0)


def _open(path, mode, flags, buffering=-1):
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
