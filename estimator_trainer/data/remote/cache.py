"""Keeps what was read from stores in a folder of this machine whose size is bounded.

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

from estimator_trainer.config import urls
from estimator_trainer.data import preparing
from estimator_trainer.data.remote import threads
from estimator_trainer.data.remote.bounded_folder import Folder
from estimator_trainer.data.remote.paths import RemotePath
from estimator_trainer.errors import DatasetError

_log = logging.getLogger('estimator_trainer')
_PART_BYTES = 8 * 2**20
_WITH_INDEXES = 17 / 16  # what files take together with their indexes
_OPENS = 3  # a copy may be removed before it is open
_ROOM_SECS = 60  # for room that is taken while others write: a process that was killed leaves such a file behind


class Cache:
    """Reads objects through the folder.

    Args:
        folder: made where it is not there; all processes of a user may share it.
        most_bytes: that it may take.
    """

    def __init__(self, folder: str, most_bytes: int):
        self.folder = Folder(folder, most_bytes)
        self._warned = False

    def has_room_for(self, paths) -> bool:
        """Whether there is room for whole copies of these, beside those that this process holds already."""
        sizes = self.folder.held | {entry_of(path): path.size for path in paths}
        return sum(sizes.values()) * _WITH_INDEXES <= self.folder.most_bytes

    def path_of(self, entry: str, name: str) -> str:
        return os.path.join(self.folder.path, entry, name)

    def copy(self, path: RemotePath, entry: str = '', name: str = '') -> str:
        """The path of a whole copy of an object, which has the object's size, and `changed` for its time.

        Args:
            entry, name: where it lies, if not in the entry of the object.

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

    def open_copy(self, path: RemotePath):
        """A whole copy, open for reading. Raises as `copy`."""
        for _ in range(_OPENS):
            with contextlib.suppress(FileNotFoundError):  # nobody holds it
                return open(self.copy(path), 'rb')
        raise self._no_room(path)

    def read(self, path: RemotePath, start: int, end: int) -> bytes:
        """Some bytes of an object. They are kept if there is room. Raises as `copy`."""
        if start == end:  # no store is asked for nothing
            return b''
        size, block = end - start, self.path_of(entry_of(path), f'.{start}-{end}.block')
        found = _read(self.path_of(entry_of(path), os.path.basename(path)), start, size)
        found = _read(block, 0, size) if found is None else found
        if found is not None:
            return found
        with self.folder.alone(block):
            found = _read(block, 0, size)
            if found is None:
                found = path.read(start, end)
                preparing.advance(size)
                self._keep(block, found)
        return found

    def index_folder(self, path: RemotePath) -> str:
        """Where the index of an object is kept: beside its copy, if there is one."""
        return self.folder.made(entry_of(path))

    def _fetch(self, path, local):
        with self.folder.writing(local, path.size, wait_secs=_ROOM_SECS) as file:
            if file is None:
                raise self._no_room(path)
            for start in range(0, path.size, _PART_BYTES):
                threads.raise_if_ending()
                file.write(path.read(start, min(start + _PART_BYTES, path.size)))
                preparing.advance(_PART_BYTES)
            file.flush()
            os.utime(file.fileno(), ns=(time.time_ns(), path.changed))

    def _keep(self, block, content):
        try:
            with self.folder.writing(block, len(content)) as file:
                if file is not None:
                    file.write(content)
        except DatasetError as error:
            if not self._warned:
                self._warned = True
                _log.warning('WARNING: %s. Blocks of data are fetched each time.', error)

    def _no_room(self, path):
        return DatasetError(
            f'{path} has {_mib(path.size)} MiB, for which {self.folder.path} has no room: it may hold '
            f'{_mib(self.folder.most_bytes)} MiB, and runs on this machine use most of it; raise --data_cache_mib'
        )


def entry_of(path: RemotePath) -> str:
    return path.digest[:16]


@functools.cache
def at(folder: str = '', most_mib: int = urls.DATA_CACHE_MIB) -> Cache:
    """The cache of this process; '' is the default folder."""
    return Cache(folder or os.path.join(urls.user_cache(os.environ), 'data'), most_mib * 2**20)


def is_there(path: str, size: int) -> bool:
    """Whether a copy is there, which counts as a use of it."""
    try:
        found = os.stat(path)
        os.utime(path, ns=(time.time_ns(), found.st_mtime_ns))
    except OSError:
        return False
    return found.st_size == size


def _read(path, start, size) -> bytes | None:
    """None where the file is not there, or too short."""
    try:
        with open(path, 'rb', buffering=0) as file:
            content = os.pread(file.fileno(), size, start)
            os.utime(file.fileno(), ns=(time.time_ns(), os.fstat(file.fileno()).st_mtime_ns))
    except OSError:
        return None
    return content if len(content) == size else None


def _mib(size) -> str:
    return f'{size / 2**20:,.0f}'
