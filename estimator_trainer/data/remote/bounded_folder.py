"""A folder of this machine whose size is bounded. All processes of a user share it.

    ENTRY/…   files that can be fetched again; ENTRY has 16 hexadecimal digits
    in_use/   a file for each process, which names the entries that it holds; the process locks the file
    locks/    the locks of processes that fetch files now

The entry that was used least recently is removed first, and indexes last. Entries that a process holds stay, and so
does everything that is not in an entry. If the folder that was named holds other files, a folder of its own in it is
used (OWN).
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import secrets
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

from estimator_trainer.errors import DatasetError, DatasetUnavailable
from estimator_trainer.run_dir import locks, removal
from estimator_trainer.this_process import forks

OWN = 'estimator_trainer_data'
_IN_USE, _LOCKS = 'in_use', 'locks'
_ENTRY = re.compile('[0-9a-f]{16}')
_HOLDER = removal.Named('[0-9a-f]{16}')
_UNFINISHED = '.part'
_OPENS = 100  # a folder may be removed before there is a file in it
_NUM_LOCKS = 1024  # files that share a lock are fetched one after the other
_WAIT_SECS = 1800  # for another process that fetches the same: as long as a step may take
_LOOK_SECS = 0.1  # between two looks whether others have finished their files
_SHARE = 32  # a process looks at all files again when it has written this share of the bound


class _File(NamedTuple):
    path: str
    entry: str
    size: int
    used: float
    is_kept: bool  # it is being written, or was a moment ago


class Folder:
    """The folder, as one process uses it.

    Args:
        path: made where it is not there. If it holds files of others, `path`/OWN is used in its place.
        most_bytes: that all its files take together. Each process may write a thirty-second part before it sees what
            others have written.

    Attributes:
        path: of the folder that is used.
        held: entry -> bytes, of those that this process holds.
    """

    def __init__(self, path: str, most_bytes: int):
        self.path, self.most_bytes = _ours(path), most_bytes
        self._proof = removal.Marked(self.path)
        self.held: dict[str, int] = {}
        self._may_write = 0  # before the next look at all files
        self._unfinished = 0  # bytes of files that were being written at the last look
        self._lock = threading.Lock()
        self._mine: int | None = None  # the descriptor of our file in in_use/

    def made(self, name: str) -> str:
        """The path of a folder in it, which is there now. Raises DatasetError."""
        path = os.path.join(self.path, name)
        try:
            os.makedirs(path, mode=0o700, exist_ok=True)
            removal.mark(self.path)
        except OSError as error:
            raise DatasetError(
                f'{path} cannot be made ({error.strerror}); name another folder with --data_cache_dir'
            ) from None
        return path

    def hold(self, entries: dict[str, int]) -> None:
        """From here on these entries, of so many bytes, stay for as long as this process lives."""
        self.held.update(entries)
        self._in_use()  # removes the files of processes that have ended
        folder = self.made(_IN_USE)
        name = secrets.token_hex(8)
        with forks.none_meanwhile():
            unfinished = os.path.join(folder, f'.{name}')
            fd = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(fd, '\n'.join(self.held).encode())
            os.rename(unfinished, os.path.join(folder, name))
            before, self._mine = self._mine, fd
            if before is None:
                forks.in_child(self._let_go)
            else:
                os.close(before)

    @contextlib.contextmanager
    def alone(self, path: str) -> Iterator[None]:
        """No other thread or process is here with the same path meanwhile.

        Raises:
            DatasetUnavailable: somebody else was, for half an hour.
            DatasetError: the folder has no locks.
        """
        number = int(hashlib.sha256(os.fsencode(path)).hexdigest()[:8], 16) % _NUM_LOCKS
        with contextlib.ExitStack() as stack:
            try:
                lock = stack.enter_context(locks.Lock(os.path.join(self.made(_LOCKS), f'{number:03x}'), 0o600))
                lock.wait(locks.patience(_WAIT_SECS, _WAIT_SECS))
            except locks.Held as error:
                raise DatasetUnavailable(f'{error} has fetched {path} for {_WAIT_SECS} s') from None
            except OSError as error:
                raise DatasetError(
                    f'{self.path} cannot be locked ({error}); name another folder with --data_cache_dir'
                ) from None
            yield

    @contextlib.contextmanager
    def writing(self, path: str, size: int, wait_secs: float = 0):
        """A file of that size, which gets its name when the context ends well; None: there is no room.

        Args:
            wait_secs: how long to wait for room that other files take only while they are written.

        Raises:
            DatasetError: it cannot be written.
        """
        folder, name = os.path.split(path)
        unfinished = os.path.join(folder, f'.{name}.{secrets.token_hex(4)}{_UNFINISHED}')
        try:
            deadline = time.monotonic() + wait_secs
            while not (reserved := self._reserve(unfinished, size)):
                if reserved is False or time.monotonic() > deadline:
                    yield None
                    return
                time.sleep(_LOOK_SECS)
            with open(unfinished, 'r+b') as file:
                yield file
                file.flush()
                os.fsync(file.fileno())  # it has its size already: a machine that loses its power must not leave zeros
            os.rename(unfinished, path)
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            cure = 'lower --data_cache_mib, or ' if full else ''
            raise DatasetError(
                f'{path} cannot be written ({error.strerror}); {cure}name another folder with --data_cache_dir'
            ) from None
        finally:
            removal.file(unfinished, self._proof)

    def _reserve(self, path, size) -> bool | None:
        """Makes a file of that size, if there is room for it or can be made. None: once others have written theirs."""
        with self._lock:
            if size > self._may_write:
                self._may_write = self._make_room(max(size, self.most_bytes // _SHARE))
            if size > self._may_write:
                return None if size <= self._may_write + self._unfinished else False
            self._may_write -= size
            for _ in range(_OPENS):
                self.made(os.path.dirname(path))
                # Another process may have removed the last file meanwhile, and the folder with it.
                with contextlib.suppress(FileNotFoundError):
                    with open(path, 'xb') as file:
                        file.truncate(size)  # others count it from now on
                    return True
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def _make_room(self, wanted) -> int:
        """Removes what was used least recently; the bytes that may be written then, at most `wanted`."""
        files, held = self._files(), self._in_use()
        total = sum(file.size for file in files)
        self._unfinished = sum(file.size for file in files if file.is_kept)
        for file in sorted(files, key=lambda file: (file.path.endswith('.index'), file.used)):
            if total + wanted <= self.most_bytes:
                break
            if file.entry not in held and not file.is_kept:
                with contextlib.suppress(OSError):
                    removal.file(file.path, self._proof)
                    total -= file.size
                    removal.empty_folder(os.path.dirname(file.path), self._proof)  # if that was the last one
        return min(wanted, self.most_bytes - total)

    def _files(self) -> list[_File]:
        found, now = [], time.time()
        for folder, below, names in os.walk(self.path):
            entry = os.path.relpath(folder, self.path).split(os.sep)[0]
            if folder == self.path:
                below[:] = filter(_ENTRY.fullmatch, below)
            for name in names if _ENTRY.fullmatch(entry) else ():
                with contextlib.suppress(OSError):
                    path = os.path.join(folder, name)
                    status = os.stat(path)
                    is_kept = name.endswith(_UNFINISHED) and now - status.st_ctime < _WAIT_SECS  # mtime is a version
                    found.append(_File(path, entry, status.st_size, status.st_atime, is_kept))
        return found

    def _in_use(self) -> set[str]:
        """The entries that processes hold. The files of processes that have ended are removed."""
        found, folder = set(self.held), self.made(_IN_USE)
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            with contextlib.suppress(OSError):
                if locks.is_held(path):
                    with open(path, encoding='utf-8') as file:
                        found.update(file.read().split())
                elif _HOLDER.covers(name):  # else it is being written, or is not ours
                    removal.file(path, _HOLDER)
        return found

    def _let_go(self):
        if self._mine is not None:
            os.close(self._mine)
            self._mine = None


def _ours(path) -> str:
    """The folder itself if there is nothing in it but what earlier processes of ours have made."""
    try:
        names = set(os.listdir(path))
    except OSError:  # it is made, or the attempt says what is wrong
        return path
    if not names or removal.MARK in names:
        return path
    of_earlier_versions = _LOCKS in names and all(name in (_IN_USE, _LOCKS) or _ENTRY.fullmatch(name) for name in names)
    return path if of_earlier_versions else os.path.join(path, OWN)
