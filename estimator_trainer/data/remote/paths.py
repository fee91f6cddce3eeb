"""Treats the objects of a store as files: lists them, and reads their bytes."""

import hashlib
import io
import os
import typing

from estimator_trainer.config import urls
from estimator_trainer.data.remote import patience
from estimator_trainer.errors import DatasetError
from estimator_trainer.storage import connection, globs, store

if typing.TYPE_CHECKING:
    from estimator_trainer.data.remote.cache import Cache

_stores: dict[str, store.Store] = {}  # by bucket


class RemotePath(str):
    """The URL of an object, as it was when it was listed.

    Attributes:
        cache: data.remote.cache.Cache through which it is read.
        name: of the object within its bucket.
        size: in bytes.
        version: storage.store.Version; only bytes of this version are read.
        changed: a number that stands for the version, where files have the time of their last change: nanoseconds,
            a whole number of seconds.
    """

    cache: 'Cache'
    name: str
    size: int
    version: store.Version

    def __new__(cls, bucket: str, name: str, found: store.Object):
        self = super().__new__(cls, urls.of(bucket, name))
        self.name, self.size, self.version = name, found.size, found.version
        return self

    @property
    def changed(self) -> int:
        return int(self.digest[:8], 16) * 10**9

    @property
    def digest(self) -> str:
        """Of the URL and the version."""
        return hashlib.sha256(f'{self}\n{self.version.e_tag}'.encode()).hexdigest()

    def read(self, start: int, end: int) -> bytes:
        """Raises DatasetError: the object has changed, or the store refuses; DatasetUnavailable."""
        remote = _open(urls.bucket(self), '--train_files')
        try:
            return patience.patiently(
                lambda: remote.read_range(self.name, start, end, self.version), patience.REFUSED_SECS
            )
        except store.Conflict:
            raise DatasetError(
                f'{self} has changed while it was in use; put it back, or start again with the new file'
            ) from None


class RemoteFile(io.RawIOBase):
    """An object as a file that pyarrow can read; each read is one of the cache."""

    def __init__(self, path: RemotePath):
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


def expand(url: str, flag: str) -> list[RemotePath]:
    """The objects that a URL names; what storage.globs knows means in it what it means for files.

    Raises:
        UsageError: the URL is none of a store, a package or credentials are missing, or the store refuses.
        DatasetError: no object matches.
        DatasetUnavailable: the store does not answer.
    """
    urls.check(url, flag, may_be_glob=True)
    bucket, pattern = urls.bucket(url), globs.split(url)
    if not pattern.is_glob:
        name = urls.name(url)
        found = _ask(url, flag, lambda remote: remote.head(name))
        if found:
            return [RemotePath(bucket, name, found)]
        if _ask(url, flag, lambda remote: remote.list(name)):
            raise DatasetError(f'{url} is a folder; name its files, such as {url.rstrip("/")}/*')
    folder = urls.name(pattern.folder)
    below = _ask(url, flag, lambda remote: remote.list(folder))
    start = f'{folder}/' if folder else ''
    matching = globs.matching((name.removeprefix(start) for name in below), pattern)
    if not matching:
        raise DatasetError(f'no file matches {url!r} (of {len(below)} below {bucket}/{folder})')
    return [RemotePath(bucket, start + name, below[start + name]) for name in matching]


def in_folder(folder: str, flag: str) -> list[RemotePath]:
    """All objects below a folder, which may be none. Raises as `expand`."""
    urls.check(folder, flag)
    bucket, name = urls.bucket(folder), urls.name(folder)
    found = _ask(folder, flag, lambda remote: remote.list(name))
    return [RemotePath(bucket, path, found[path]) for path in sorted(found)]


def _ask(url, flag, question):
    """question(store), which is asked again while the store does not answer."""
    remote = _open(urls.bucket(url), flag)

    def ask():
        with connection.usage_errors(url, flag):
            return question(remote)

    return patience.patiently(ask)


def _open(bucket, flag) -> store.Store:
    if bucket not in _stores:
        _stores[bucket] = connection.open_for_reading(bucket, os.environ, flag)
    return _stores[bucket]
