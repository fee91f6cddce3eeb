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
from collections.abc import Collection, Iterable, Iterator
from typing import BinaryIO, NamedTuple

from estimator_trainer.data import preparing
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
_WAIT_SECS = 1800  # to wait for another process that fetches the same file: the longest time of a step
_LOOK_SECS = 0.1  # between two looks whether others have finished their files
_SHARE = 32  # a process looks at all files again when it has written 1/_SHARE of the bound


class _File(NamedTuple):
    path: str
    entry: str
    size: int
    used: float
    is_kept: bool  # it is being written, or was being written a moment ago


class Folder:
    """The folder, as one process uses it.

    Args:
        path: the folder, which is made if it does not exist. If it has files of others, `path`/OWN is used instead.
        most_bytes: the most bytes that all its files may take together. Each process may write 1/_SHARE of them before
            it sees the files that others have written.

    Attributes:
        path: the folder that is used.
        held: the bytes of each entry that this process holds.
    """

    def __init__(self, path: str, most_bytes: int) -> None:
        self.path, self.most_bytes = _own_folder(path), most_bytes
        self._proof = removal.Marked(self.path)
        self.held: dict[str, int] = {}
        self._may_write = 0  # bytes that may be written before the next look at all files
        self._unfinished = 0  # bytes of files that were being written at the last look
        self._lock = threading.Lock()
        self._in_use_fd: int | None = None  # the descriptor of this process's file in in_use/

    def made(self, name: str) -> str:
        """Makes a folder in it if there is none, and returns its path. Raises DatasetError if it cannot be made."""
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
        """Keeps these entries for as long as this process lives. `entries` has the bytes of each."""
        self.held.update(entries)
        self._in_use()  # also removes the files of processes that have ended
        folder = self.made(_IN_USE)
        name = secrets.token_hex(8)
        with forks.none_meanwhile():
            unfinished = os.path.join(folder, f'.{name}')
            fd = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(fd, '\n'.join(self.held).encode())
            os.rename(unfinished, os.path.join(folder, name))
            before, self._in_use_fd = self._in_use_fd, fd
            if before is None:
                forks.in_child(self._let_go)
            else:
                os.close(before)

    @contextlib.contextmanager
    def alone(self, path: str) -> Iterator[None]:
        """A context in which no other thread or process is at the same time, for the same path.

        Raises:
            DatasetUnavailable: another one was in it, and nothing of `path` came for half an hour.
            DatasetError: the folder has no locks.
        """
        with contextlib.ExitStack() as stack:
            try:
                lock = stack.enter_context(locks.Lock(self._lock_of(path), 0o600))
                lock.wait(preparing.WhileItAdvances(_WAIT_SECS, look=lambda: _last_write(path)))
            except locks.Held as error:
                raise DatasetUnavailable(f'{error} fetches {path}, of which nothing came for {_WAIT_SECS} s') from None
            except OSError as error:
                raise DatasetError(
                    f'{self.path} cannot be locked ({error}); name another folder with --data_cache_dir'
                ) from None
            yield

    def _lock_of(self, path: str) -> str:
        number = int(hashlib.sha256(os.fsencode(path)).hexdigest()[:8], 16) % _NUM_LOCKS
        return os.path.join(self.made(_LOCKS), f'{number:03x}')

    @contextlib.contextmanager
    def writing(self, path: str, size: int, wait_secs: float = 0) -> Iterator[BinaryIO | None]:
        """A context with a new file, or with None if there is no room.

        Args:
            path: the name that the file gets when the context ends without an error.
            size: the size of the file, in bytes.
            wait_secs: how long to wait for room that other files take only while they are written, in seconds.

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
                os.fsync(
                    file.fileno()
                )  # the file has its size already; without this, a loss of power could leave zeros
            with self._lock:  # whoever counts the files meanwhile may see it under neither name
                os.rename(unfinished, path)
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            cure = 'lower --data_cache_mib, or ' if full else ''
            raise DatasetError(
                f'{path} cannot be written ({error.strerror}); {cure}name another folder with --data_cache_dir'
            ) from None
        finally:
            removal.file(unfinished, self._proof)

    def written(self, path: str) -> int:
        """The bytes on the disk of the unfinished file that is to get this name, if another process is at it."""
        if not locks.is_held(self._lock_of(path)):
            return 0
        return sum(status.st_blocks * 512 for _, status in _unfinished_files(path))

    def remove_unfinished(self, path: str) -> None:
        """Removes what killed processes have left of a file with this name. The caller is `alone` with it."""
        for unfinished, _ in _unfinished_files(path):
            removal.file(unfinished, self._proof)

    def _reserve(self, path: str, size: int) -> bool | None:
        """Makes a file of that size. False: there is no room. None: there will be, when others have written theirs."""
        with self._lock:
            if size > self._may_write:
                self._may_write = self._make_room(max(size, self.most_bytes // _SHARE))
            if size > self._may_write:
                return None if size <= self._may_write + self._unfinished else False
            self._may_write -= size
            for _ in range(_OPENS):
                self.made(os.path.dirname(path))
                # Another process may have removed the folder meanwhile, with the last file in it.
                with contextlib.suppress(FileNotFoundError):
                    with open(path, 'xb') as file:
                        file.truncate(size)  # now others count it
                    return True
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def give_up(self, needed: int) -> int:
        """Removes the files that were used least recently, until the disk has so many bytes more.

        Returns:
            The bytes that are free now and were not; 0: all that may be removed has fewer than `needed`, and nothing is
            removed.
        """
        with self._lock:
            held = self._in_use()
            removable = [file for file in _least_used_first(self._files()) if _may_go(file, held)]
            if sum(file.size for file in removable) < needed:
                return 0
            gained = 0
            for file in removable:
                if gained >= needed:
                    break
                gained += self._remove(file)
            return gained

    def _remove(self, file: _File) -> int:
        """Removes a file, and its folder if it was the last one there. Returns the bytes that are free now."""
        with contextlib.suppress(OSError):
            removal.file(file.path, self._proof)
            removal.empty_folder(os.path.dirname(file.path), self._proof)
        return 0 if os.path.lexists(file.path) else file.size

    def _make_room(self, needed: int) -> int:
        """Removes the files that were used least recently, and returns the bytes that may be written then, at most
        `needed`."""
        files, held = self._files(), self._in_use()
        total = sum(file.size for file in files)
        self._unfinished = sum(file.size for file in files if file.is_kept)
        for file in _least_used_first(files):
            if total + needed <= self.most_bytes:
                break
            if _may_go(file, held):
                total -= self._remove(file)
        return min(needed, self.most_bytes - total)

    def _files(self) -> list[_File]:
        files, now = [], time.time()
        for folder, below, names in os.walk(self.path):
            entry = os.path.relpath(folder, self.path).split(os.sep)[0]
            if folder == self.path:
                below[:] = filter(_ENTRY.fullmatch, below)
            for name in names if _ENTRY.fullmatch(entry) else ():
                with contextlib.suppress(OSError):
                    path = os.path.join(folder, name)
                    status = os.stat(path)
                    is_kept = name.endswith(_UNFINISHED) and now - status.st_ctime < _WAIT_SECS  # mtime is a version
                    files.append(_File(path, entry, status.st_size, status.st_atime, is_kept))
        return files

    def _in_use(self) -> set[str]:
        """The entries that processes hold. The files of processes that have ended are removed."""
        entries, folder = set(self.held), self.made(_IN_USE)
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            with contextlib.suppress(OSError):
                if locks.is_held(path):
                    with open(path, encoding='utf-8') as file:
                        entries.update(file.read().split())
                elif _HOLDER.covers(name):  # else it is being written, or is not ours
                    removal.file(path, _HOLDER)
        return entries

    def _let_go(self) -> None:
        if self._in_use_fd is not None:
            os.close(self._in_use_fd)
            self._in_use_fd = None


def _least_used_first(files: Iterable[_File]) -> list[_File]:
    return sorted(files, key=lambda file: (file.path.endswith('.index'), file.used))


def _may_go(file: _File, held: Collection[str]) -> bool:
    return file.entry not in held and not file.is_kept


def _own_folder(path: str) -> str:
    """The folder itself if only this package has made files in it, else `path`/OWN."""
    try:
        names = set(os.listdir(path))
    except OSError:  # the folder is made later, or the attempt says what is wrong
        return path
    if not names or removal.MARK in names:
        return path
    of_earlier_versions = _LOCKS in names and all(name in (_IN_USE, _LOCKS) or _ENTRY.fullmatch(name) for name in names)
    return path if of_earlier_versions else os.path.join(path, OWN)


def _unfinished_files(path: str) -> list[tuple[str, os.stat_result]]:
    """(path, status) of the files that are to get this name."""
    folder, name = os.path.split(path)
    files: list[tuple[str, os.stat_result]] = []
    with contextlib.suppress(OSError):  # the folder may be gone
        for entry in os.scandir(folder):
            if entry.name.startswith(f'.{name}.') and entry.name.endswith(_UNFINISHED):
                with contextlib.suppress(OSError):  # it has its name now
                    files.append((entry.path, entry.stat(follow_symlinks=False)))
    return files


def _last_write(path: str) -> int:
    """When a file that is to get this name was written last, in nanoseconds; 0: there is none."""
    return max((status.st_mtime_ns for _, status in _unfinished_files(path)), default=0)
