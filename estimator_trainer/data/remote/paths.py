"""Treats the objects of a store as files: lists them, and reads their bytes."""

import hashlib
import io
import os
import typing
from collections.abc import Callable, Iterable, Sequence

from estimator_trainer.config import urls
from estimator_trainer.data.remote import patience
from estimator_trainer.errors import DatasetError
from estimator_trainer.storage import connection, globs, store

if typing.TYPE_CHECKING:
    from estimator_trainer.data.remote.cache import Cache

_T = typing.TypeVar('_T')
open_stores: dict[str, store.Store] = {}  # by bucket


class RemotePath(str):
    """The URL of an object, as it was when it was listed.

    Attributes:
        cache: the cache through which it is read.
        name: the name of the object within its bucket.
        size: its size in bytes.
        version: only bytes of this version are read.
        changed: a number that stands for the version, in place of the time of a file's last change: nanoseconds, a
            whole number of seconds.
    """

    cache: 'Cache'
    name: str
    size: int
    version: store.Version

    def __new__(cls, bucket: str, name: str, listed: store.Object) -> 'RemotePath':
        self = super().__new__(cls, urls.join(bucket, name))
        self.name, self.size, self.version = name, listed.size, listed.version
        return self

    @property
    def changed(self) -> int:
        return int(self.digest[:8], 16) * 10**9

    @property
    def digest(self) -> str:
        """A digest of the URL and the version, in hexadecimal digits."""
        return hashlib.sha256(f'{self}\n{self.version.e_tag}'.encode()).hexdigest()

    def read(self, start: int, end: int) -> bytes:
        """The bytes from `start` to before `end`.

        Raises:
            DatasetError: the object has changed, or the store refuses.
            DatasetUnavailable: the store does not answer.
        """
        remote = _open(urls.bucket(self), '--train_files')
        try:
            return patience.OF_PROCESS.request(
                lambda: remote.read_range(self.name, start, end, self.version), patience.REFUSED_SECS
            )
        except store.Conflict:
            raise DatasetError(
                f'{self} has changed while it was in use; put it back, or start again with the new file'
            ) from None


class RemoteFile(io.RawIOBase):
    """An object as a file that pyarrow can read. Each read goes through the cache."""

    def __init__(self, path: RemotePath) -> None:
        super().__init__()
        self._path, self._at = path, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._path.size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        start, rest = self._at, max(0, self._path.size - self._at)
        self._at += rest if size is None or size < 0 else min(size, rest)
        return self._path.cache.read(self._path, start, self._at) if self._at > start else b''


def expand(url: str, flag: str, is_of_data: Callable[[str], object] = lambda folder: False) -> list[RemotePath]:
    """The objects that a URL names, sorted. The patterns of storage.globs mean in it what they mean for files.

    Args:
        url: the URL.
        flag: the flag that has it, for messages.
        is_of_data: whether the name of a folder says that it holds data, so that a glob does not pass over it.

    Raises:
        UsageError: the URL is none of a store, a package or credentials are missing, or the store refuses.
        DatasetError: no object matches, or a folder of data.
        DatasetUnavailable: the store does not answer.
    """
    urls.check(url, flag, may_be_glob=True)
    bucket, pattern = urls.bucket(url), globs.split(url)
    if not pattern.is_glob:
        name = urls.name(url)
        listed = _ask(url, flag, lambda remote: remote.head(name))
        if listed:
            return [RemotePath(bucket, name, listed)]
        if _ask(url, flag, lambda remote: remote.list(name)):
            raise DatasetError(f'{url} is a folder; name its files, such as {url.rstrip("/")}/*')
    folder = urls.name(pattern.folder)
    below = _ask(url, flag, lambda remote: remote.list(folder))
    start = f'{folder}/' if folder else ''
    names = [name.removeprefix(start) for name in below if name.startswith(start)]
    matching = globs.matching(names, pattern)
    refuse_folders(names, matching, pattern, is_of_data)
    if not matching:
        raise DatasetError(f'no file matches {url!r} (of {len(below)} below {bucket}/{folder})')
    return [RemotePath(bucket, start + name, below[start + name]) for name in matching]


def refuse_folders(
    names: Iterable[str], meant: Sequence[str], pattern: globs.Pattern, is_of_data: Callable[[str], object]
) -> None:
    """Raises DatasetError if a glob passes over a folder of data, or means folders only.

    Args:
        names: all objects below the pattern's folder, relative to it.
        meant: those of them that the pattern means.
        pattern: the glob.
        is_of_data: see `expand`.
    """
    for folder in globs.folders(names, meant, pattern):
        if is_of_data(folder) or not meant:
            path = f'{pattern.folder}/{folder}'
            raise DatasetError(f'{path} is a folder; name its files, such as {path}/*')


def in_folder(folder: str, flag: str) -> list[RemotePath]:
    """All objects below a folder, sorted; empty if there are none.

    Raises:
        UsageError, DatasetUnavailable: as `expand`.
    """
    urls.check(folder, flag)
    bucket, name = urls.bucket(folder), urls.name(folder)
    listed = _ask(folder, flag, lambda remote: remote.list(name))
    return [RemotePath(bucket, path, listed[path]) for path in sorted(listed)]


def _ask(url: str, flag: str, question: Callable[[store.Store], _T]) -> _T:
    """question(store), which is asked again while the store does not answer."""
    remote = _open(urls.bucket(url), flag)

    def ask() -> _T:
        with connection.usage_errors(url, flag):
            return question(remote)

    return patience.OF_PROCESS.request(ask)


def _open(bucket: str, flag: str) -> store.Store:
    if bucket not in open_stores:
        open_stores[bucket] = connection.open_for_reading(bucket, os.environ, flag)
    return open_stores[bucket]
