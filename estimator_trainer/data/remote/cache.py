"""Keeps bytes that were read from stores in a folder of this machine whose size is bounded.

    ENTRY/NAME              the copy of an object; ENTRY stands for its URL and version
    ENTRY/.START-END.block  some bytes of it
    ENTRY/.NAME.index       its index, see data.files.index

Bytes that no process holds may be removed at any time (data.remote.bounded_folder). They are then fetched again.
"""

import contextlib
import functools
import logging
import os
import time
from collections.abc import Sequence
from io import BufferedReader

from estimator_trainer.config import urls
from estimator_trainer.data import preparing
from estimator_trainer.data.remote import threads
from estimator_trainer.data.remote.bounded_folder import Folder
from estimator_trainer.data.remote.paths import RemotePath
from estimator_trainer.errors import DatasetError

_log = logging.getLogger('estimator_trainer')
_PART_BYTES = 8 * 2**20
_WITH_INDEXES = 17 / 16  # the size of files with their indexes, as a multiple of the size of the files
_OPENS = 3  # a copy may be removed before it is open
_ROOM_SECS = 60  # to wait for room that files take only while they are written; a killed process leaves such a file


class Cache:
    """Reads objects through the folder.

    Args:
        folder: its path. It is made if it does not exist. All processes of a user may share it.
        most_bytes: the most bytes that the folder may take.
    """

    def __init__(self, folder: str, most_bytes: int) -> None:
        self.folder = Folder(folder, most_bytes)
        self._warned = False

    def has_room_for(self, paths: Sequence[RemotePath]) -> bool:
        """Whether there is room for whole copies of these objects, beside those that this process holds already."""
        sizes = self.folder.held | {entry_of(path): path.size for path in paths}
        return sum(sizes.values()) * _WITH_INDEXES <= self.folder.most_bytes

    def path_of(self, entry: str, name: str) -> str:
        """The path of a file in an entry."""
        return os.path.join(self.folder.path, entry, name)

    def copy(self, path: RemotePath, entry: str = '', name: str = '') -> str:
        """Fetches a whole copy of an object if there is none yet, and returns its path.

        The copy has the size of the object, and the object's `changed` as the time of its last change.

        Args:
            path: the object.
            entry: the entry for the copy; by default that of the object.
            name: the name of the copy; by default that of the object.

        Raises:
            DatasetError: the object has changed, the store refuses, or there is no room.
            DatasetUnavailable: the store does not answer.
        """
        local = self.path_of(entry or entry_of(path), name or os.path.basename(path))
        if not is_there(local, path.size):
            with self.folder.alone(local):
                if not is_there(local, path.size):  # another process may have fetched it meanwhile
                    self._fetch(path, local)
        return local

    def open_copy(self, path: RemotePath) -> BufferedReader:
        """A whole copy of an object, open for reading.

        Raises:
            DatasetError, DatasetUnavailable: as `copy`.
        """
        for _ in range(_OPENS):
            with contextlib.suppress(FileNotFoundError):  # a copy that nobody holds may be removed
                return open(self.copy(path), 'rb')
        raise self._no_room(path)

    def read(self, path: RemotePath, start: int, end: int) -> bytes:
        """The bytes of an object from `start` to before `end`. They are kept if there is room.

        Raises:
            DatasetError, DatasetUnavailable: as `copy`.
        """
        if start == end:  # a store refuses a request for no bytes
            return b''
        size, block = end - start, self.path_of(entry_of(path), f'.{start}-{end}.block')
        content = _read(self.path_of(entry_of(path), os.path.basename(path)), start, size)
        content = _read(block, 0, size) if content is None else content
        if content is not None:
            return content
        with self.folder.alone(block):
            content = _read(block, 0, size)
            if content is None:
                content = path.read(start, end)
                preparing.advance(size)
                self._keep(block, content)
        return content

    def index_folder(self, path: RemotePath) -> str:
        """The folder for the index of an object, which is that of its copy."""
        return self.folder.made(entry_of(path))

    def _fetch(self, path: RemotePath, local: str) -> None:
        self.folder.remove_unfinished(local)
        with self.folder.writing(local, path.size, wait_secs=_ROOM_SECS) as file:
            if file is None:
                raise self._no_room(path)
            for start in range(0, path.size, _PART_BYTES):
                threads.raise_if_ending()
                file.write(path.read(start, min(start + _PART_BYTES, path.size)))
                preparing.advance(_PART_BYTES)
            file.flush()
            os.utime(file.fileno(), ns=(time.time_ns(), path.changed))

    def _keep(self, block: str, content: bytes) -> None:
        try:
            with self.folder.writing(block, len(content)) as file:
                if file is not None:
                    file.write(content)
        except DatasetError as error:
            if not self._warned:
                self._warned = True
                _log.warning('WARNING: %s. Blocks of data are fetched each time.', error)

    def _no_room(self, path: RemotePath) -> DatasetError:
        return DatasetError(
            f'{path} has {_mib(path.size)} MiB, for which {self.folder.path} has no room: it may hold '
            f'{_mib(self.folder.most_bytes)} MiB, and runs on this machine use most of it; raise --data_cache_mib'
        )


def entry_of(path: RemotePath) -> str:
    """The entry of an object in the folder: 16 hexadecimal digits, which stand for its URL and version."""
    return path.digest[:16]


@functools.cache
def at(folder: str = '', most_mib: int = urls.DATA_CACHE_MIB) -> Cache:
    """The cache of this process in a folder; '' is the default folder."""
    return Cache(folder or os.path.join(urls.user_cache(os.environ), 'data'), most_mib * 2**20)


def is_there(path: str, size: int) -> bool:
    """Whether a copy exists and has this size. The question counts as a use of the copy."""
    try:
        status = os.stat(path)
        os.utime(path, ns=(time.time_ns(), status.st_mtime_ns))
    except OSError:
        return False
    return status.st_size == size


def _read(path: str, start: int, size: int) -> bytes | None:
    """`size` bytes of a file from `start` on; None if the file does not exist, or is too short."""
    try:
        with open(path, 'rb', buffering=0) as file:
            content = os.pread(file.fileno(), size, start)
            os.utime(file.fileno(), ns=(time.time_ns(), os.fstat(file.fileno()).st_mtime_ns))
    except OSError:
        return None
    return content if len(content) == size else None


def _mib(size: int) -> str:
    return f'{size / 2**20:,.0f}'
