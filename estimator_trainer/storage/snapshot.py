"""Takes a snapshot of a scratch folder. If a file names another file, the snapshot has that one as well.

Files that name others are read first, then SavedModels, then `checkpoint`, the checkpoint that it names, and the rest.
That checkpoint is linked into a folder of its own, because the trainer may delete it while it is sent.
"""

import contextlib
import hashlib
import logging
import os
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

from estimator_trainer.run_dir import bundle, protocol, removal
from estimator_trainer.storage import names, send_order
from estimator_trainer.storage.share import Share

_log = logging.getLogger('estimator_trainer')
_CHUNK = 1 << 20
_OF_CHECKPOINT = removal.Named(names.PART.pattern)
_SMALL_BYTES = 1 << 20  # a file that belongs to no checkpoint or SavedModel is held in memory if it is no larger


class FileChanged(Exception):
    """A file is not what it was when the snapshot was taken: it is time for another one."""


class Unsteady(FileChanged):
    """The content of the file has changed."""


class Local(NamedTuple):
    """The content of a local file: `data`, or the first `size` bytes of the file at `path`."""

    digest: str
    size: int
    path: str = ''
    data: bytes | None = None

    def chunks(self) -> Iterator[bytes]:
        """Raises Unsteady, before the last chunk."""
        if self.data is not None:
            yield self.data
            return
        digest, left = _hash(), self.size
        try:
            with open(self.path, 'rb') as file:
                while left:
                    chunk = file.read(min(_CHUNK, left))
                    left -= len(chunk)
                    digest.update(chunk)
                    if not chunk or not left and digest.hexdigest() != self.digest:
                        raise Unsteady(self.path)
                    yield chunk
        except FileNotFoundError:
            raise Unsteady(self.path) from None


class Snapshot(NamedTuple):
    """Attributes:
    contents: name -> content, and the two contents of the pointer that `order.plan` names.
    newest: the checkpoint that `checkpoint` names; None: none, or one that is not whole.
    """

    contents: dict[str, Local]
    newest: str | None


def is_of_one_save(prefix: str) -> bool:
    """Whether the data have the checksums of the index. They do not for a moment while a checkpoint is saved again
    under its name."""
    try:
        index = bundle.read(prefix)
        return not (bundle.missing_data(prefix, index) or bundle.wrong_checksum(prefix, index))
    except (OSError, ValueError):
        return False


class SnapshotTaker:
    """Takes snapshots of a run. Remembers digests, so that a file is read again only when it has changed.

    Args:
        folder: the run's.
        links: a folder of the same file system, for the checkpoint that is being sent.
        share: says which files are read.
        is_of_one_save: says whether index and data of a checkpoint, given by its prefix, belong together.
    """

    def __init__(self, folder: str, links: str, share: Share, is_of_one_save: Callable[[str], bool] = is_of_one_save):
        self._folder, self._links, self._share, self._verify = folder, links, share, is_of_one_save
        self._digests: dict[tuple, str] = {}
        self._used: set[tuple] = set()
        self._unfit: set[str] = set()
        self._whole: dict[str, tuple] = {}  # the checkpoint that was verified last -> what its files were

    def news(self) -> tuple:
        """What changes when there is something that others wait for: a checkpoint, an evaluation, a start or an end."""
        if not self._share.lease:
            return ()
        watched = self._share.has_evaluator and self._share.owns(names.TRAINING)
        training = protocol.read_json(os.path.join(self._folder, names.TRAINING)) if watched else {}
        known = training.get('generation'), training.get('state')
        return self._signature(self._share.anchor), self._signature(names.START), known

    def has_pointer(self) -> bool:
        """Whether a checkpoint is named here that is to be sent."""
        return self._share.owns(names.POINTER) and self._signature(names.POINTER) is not None

    def _signature(self, name: str) -> tuple | None:
        try:
            return _signature(os.stat(os.path.join(self._folder, name)))
        except OSError:  # a pass says so, if it is more than absence
            return None

    def take(self) -> Snapshot:
        """Raises OSError."""
        contents: dict[str, Local] = {}
        first = [name for name in self._names() if names.is_read_first(name)]
        for name in sorted(first, key=names.late_rank, reverse=True):
            contents |= self._data(name)
        before = self._names()
        for name in before:
            if names.export_of(name):
                contents |= self._file(name)
        newest, pointer = self._newest()
        contents |= pointer
        for name in self._names():
            is_new_index = names.is_last_of_unit(name) and name not in before  # the list may be older than its data
            if name not in contents and name != names.POINTER and not names.is_read_first(name) and not is_new_index:
                if names.checkpoint_of(name) != newest or newest is None:
                    contents |= self._file(name)
        self._digests = {key: digest for key, digest in self._digests.items() if key in self._used}
        self._used.clear()
        return Snapshot(contents, newest)

    def _newest(self) -> tuple[str | None, dict[str, Local]]:
        content = self._data(names.POINTER) if self._share.owns(names.POINTER) else {}
        text = content[names.POINTER].data if content else b''
        newest = names.named_by(text or b'')
        if newest is None:
            return None, {}
        removal.files_below(self._links, _OF_CHECKPOINT)
        os.makedirs(self._links, exist_ok=True)
        linked: dict[str, Local] = {}
        for name in self._names():
            if names.checkpoint_of(name) == newest:
                with contextlib.suppress(FileNotFoundError):
                    os.link(os.path.join(self._folder, name), os.path.join(self._links, name))
                    linked |= self._file(name, self._links)
        if not self._is_whole(newest, linked):
            return None, {}
        for name, target in ((names.POINTER, newest), (send_order.twin_pointer(newest), names.twin_of(newest))):
            linked[name] = _content(names.pointer_to(target, text or b''))
        return newest, linked

    def _is_whole(self, checkpoint: str, files: dict[str, Local]) -> bool:
        """Its files are read once."""
        state = tuple(sorted((name, content.digest) for name, content in files.items()))
        if self._whole.get(checkpoint) != state:
            if not names.is_whole(checkpoint, files) or not self._verify(os.path.join(self._links, checkpoint)):
                return False
            self._whole = {checkpoint: state}
        return True

    def _names(self) -> list[str]:
        found = []
        for at, folders, files in os.walk(self._folder, onerror=_raise_unless_gone):
            below = os.path.relpath(at, self._folder)
            start = '' if below == os.curdir else below.replace(os.sep, '/') + '/'
            folders[:] = [
                name
                for name in folders
                if names.is_mirrored(f'{start}{name}/x') and not self._is_unfit(start + name, True)
            ]
            here = [start + name for name in files]
            found += [
                name
                for name in here
                if names.is_mirrored(name) and self._share.owns(name) and not self._is_unfit(name, False)
            ]
        return sorted(found)

    def _is_unfit(self, name: str, is_folder: bool) -> bool:
        """Whether no store can hold it, of which it warns once. A link to a file is a file: its content is sent."""
        path, why = os.path.join(self._folder, name), names.why_unfit(name)
        if is_folder:
            why = why or ('it is a link to a folder' if os.path.islink(path) else None)
        elif not os.path.isfile(path):  # to open it may block
            if not os.path.lexists(path):
                return True  # it was deleted just now
            why = why or 'it is no regular file'
        if why and name not in self._unfit:
            self._unfit.add(name)
            if self._share.owns(f'{name}/x' if is_folder else name):
                _log.warning('WARNING: %r is not sent: %s', name, why)
        return why is not None

    def _data(self, name: str) -> dict[str, Local]:
        try:
            with open(os.path.join(self._folder, name), 'rb') as file:
                return {name: _content(file.read())}
        except FileNotFoundError:
            return {}

    def _file(self, name: str, folder: str = '') -> dict[str, Local]:
        path = os.path.join(folder or self._folder, name)
        try:
            with open(path, 'rb') as file:
                signature = _signature(os.fstat(file.fileno()))
                if signature[-1] <= _SMALL_BYTES and not names.unit_of(name):  # it may be replaced at any time
                    return {name: _content(file.read(_SMALL_BYTES))}
                self._used.add(signature)
                digest = self._digests.get(signature)
                if digest is None:
                    digest = self._digests[signature] = _digest(file, signature[-1])
        except (FileNotFoundError, FileChanged):
            return {}
        return {name: Local(digest, signature[-1], path)}


def digest_of(path: str, size: int | None = None) -> str:
    """Of a whole file, or of its first `size` bytes, which are there. Raises OSError."""
    with open(path, 'rb') as file:
        return _digest(file, os.fstat(file.fileno()).st_size if size is None else size)


def _hash() -> 'hashlib.blake2b':
    return hashlib.blake2b(digest_size=16)


def _content(data: bytes) -> Local:
    digest = _hash()
    digest.update(data)
    return Local(digest.hexdigest(), len(data), data=data)


def _signature(status: os.stat_result) -> tuple:
    return status.st_ino, status.st_mtime_ns, status.st_size


def _raise_unless_gone(error: OSError) -> None:
    """What is in a folder that cannot be read is not gone: in the store it must stay."""
    if not isinstance(error, FileNotFoundError):
        raise error


def _digest(file: BinaryIO, size: int) -> str:
    digest = _hash()
    while size:
        chunk = file.read(min(_CHUNK, size))
        if not chunk:
            raise FileChanged(file.name)
        digest.update(chunk)
        size -= len(chunk)
    return digest.hexdigest()
