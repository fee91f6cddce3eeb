"""Copies runs from a store to this machine, for tools that work on folders.

A copy has all files that a tool asks for, each with the time at which it was written to the store. If a tool needs only
the size of a file, the copy has a hole of that size, which takes no room on the disk. If a trainer holds the lease of
the run, the locks of the copy are held, so that the tool sees a run that lives. The run may change meanwhile: if a
checkpoint is removed from the store while it is fetched, the copy begins again with the newer checkpoint.
"""

import contextlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import TimeoutError as NotYet
from multiprocessing.pool import ThreadPool

from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import file_names, locks, metrics_log, removal, status_file
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.storage import lease, names
from estimator_trainer.storage.needs import Need, Needs
from estimator_trainer.storage.store import Object, ObjectChanged, Store, StoreUnavailable, Version

_AT_ONCE = 8  # requests
_TRIES = 5
_SAID_BYTES, _SAID_SECS = 32 << 20, 10  # what takes longer is said
_SAME_SECS = 60  # files of one run may be so far apart


class _Changed(Exception):
    """A file of a checkpoint or SavedModel is not what the list of objects says: there is a newer one."""


class Copy:
    """A folder with what a tool needs of a store.

    Args:
        folder: an empty one.
        say: told how far it is, if it takes long.

    Attributes:
        found: whether the store has anything there.
    """

    def __init__(self, store: Store, folder: str, needs: Needs, say: Callable[[str], None]):
        self._store, self.folder, self._needs, self._say = store, folder, needs, say
        self.found = False
        self._more: tuple[str, ...] = ()
        self._have: dict[str, tuple[Need, str | None]] = {}  # name -> what of it is here, of which e_tag
        self._stamps: dict[str, tuple[int, int] | None] = {}  # of the files as they were fetched or sent
        self._over = threading.Event()
        self._locks = contextlib.ExitStack()

    @property
    def url(self) -> str:
        return self._store.url

    @property
    def names(self) -> list[str]:
        """Of the files that it holds."""
        return sorted(self._have)

    def refresh(self) -> None:
        """Makes the folder hold what the store holds now.

        Raises:
            StoreError: of the store; StoreUnavailable if it changes faster than it can be fetched.
            UsageError: this machine has too little room.
            OSError: of the folder.
        """
        for _ in range(_TRIES):
            with contextlib.suppress(_Changed):
                self._refresh()
                return
        raise StoreUnavailable(f'{self.url}: its newest checkpoint is always gone before it is fetched')

    def add(self, folder: str) -> None:
        """Fetches the whole content of what is below a folder of the copy, now and in later refreshes. Raises as
        `refresh`."""
        below = os.path.relpath(folder, self.folder).replace(os.sep, '/')
        self._more += ('' if below == os.curdir else f'{below}/',)
        self.refresh()

    def send_changes(self) -> None:
        """Sends the files that the tool has written in the folder since they were fetched.

        Raises:
            Conflict: somebody else has written such a file in the store meanwhile.
            StoreError, OSError.
        """
        for name in files_below(self.folder):
            path = os.path.join(self.folder, name)
            stamp = _stamp(path)
            if stamp == self._stamps.get(name) or not names.is_mirrored(name):
                continue
            with open(path, 'rb') as file:
                known = self._have.get(name)
                version = self._store.write(name, file.read(), Version(known[1]) if known else None)
            self._have[name], self._stamps[name] = (Need.WHOLE, version.e_tag), stamp

    def close(self) -> None:
        """Ends what is still being fetched."""
        self._over.set()
        self._locks.close()

    def _refresh(self) -> None:
        pointer = self._store.read(names.POINTER)  # before the list: what it names is there, unless it goes in between
        newest = names.named_by(pointer[0]) if pointer else None
        objects = self._store.list()
        if newest and f'{newest}.index' not in objects and self._store.read(names.POINTER) != pointer:
            raise _Changed(newest)
        needed = self._needs(objects, newest)
        needed |= {name: Need.WHOLE for name in objects if name.startswith(self._more)}
        self._remove_others(needed)
        self._fetch({name: need for name, need in needed.items() if name != names.POINTER}, objects)
        if pointer and names.POINTER in needed:
            with open(os.path.join(self.folder, names.POINTER), 'wb') as file:
                file.write(pointer[0])
        self._hold_locks(objects)
        self.found = bool(objects)

    def _remove_others(self, needed: Mapping[str, Need]) -> None:
        for name in set(self._have) - set(needed):
            del self._have[name]
            path = os.path.join(self.folder, name)
            removal.file(path, removal.Written([path]))

    def _fetch(self, needed: Mapping[str, Need], objects: Mapping[str, Object]) -> None:
        new = {
            name: need for name, need in needed.items() if self._have.get(name) != (need, objects[name].version.e_tag)
        }
        for folder in {os.path.dirname(os.path.join(self.folder, name)) for name in new}:
            os.makedirs(folder, exist_ok=True)
        parts = {name: next(_parts(need, objects[name].size)) for name, need in new.items()}
        total = sum(map(len, parts.values()))
        free = shutil.disk_usage(self.folder).free
        if total > free:
            raise UsageError(
                f'{self.url}: {_megabytes(total)} are needed of it, and {tempfile.gettempdir()} has room for '
                f'{_megabytes(free)}; set TMPDIR to a folder with more room.'
            )
        self._have |= {name: (need, None) for name, need in new.items()}  # until all of them are here
        fetched, in_vain = _Count(), threading.Event()
        changed: _Changed | None = None
        said = time.monotonic()
        if total >= _SAID_BYTES:
            self._say(f'fetches {_megabytes(total)} of {self.url}')

        def fetch(name: str) -> str:
            for part in _parts(new[name], objects[name].size):
                self._fetch_one(name, part, objects[name], fetched, in_vain)
                if new[name] is not Need.END or metrics_log.last(os.path.join(self.folder, name)):
                    break
            return name

        with ThreadPool(min(_AT_ONCE, len(new) or 1)) as pool:  # its threads hold up nobody who leaves
            results = pool.imap_unordered(fetch, new)
            for _ in new:
                while True:
                    try:
                        name = results.next(timeout=1)
                    except NotYet:
                        pass
                    except _Changed as error:  # the others end first, so that none writes into the next copy
                        changed = error
                        in_vain.set()
                        break
                    else:
                        if not in_vain.is_set():
                            self._have[name] = (new[name], objects[name].version.e_tag)
                            self._stamps[name] = _stamp(os.path.join(self.folder, name))
                        break
                    if time.monotonic() - said >= _SAID_SECS:
                        said = time.monotonic()
                        self._say(f'{_megabytes(fetched.bytes)} of {_megabytes(total)} are fetched')
        if changed:
            raise changed

    def _fetch_one(self, name: str, part: range, listed: Object, fetched: '_Count', in_vain: threading.Event) -> None:
        path = os.path.join(self.folder, name)
        if in_vain.is_set():
            return
        try:
            found, chunks = (listed, iter(())) if not part else self._store.open(name, part if part.start else None)
            if self._is_part(name) and found.version.e_tag != listed.version.e_tag:
                raise _Changed(name)
            with open(path, 'wb') as file:
                file.truncate(part.start)
                file.seek(part.start)
                for chunk in chunks:
                    if self._over.is_set() or in_vain.is_set():
                        return
                    file.write(chunk)
                    fetched.bytes += len(chunk)
        except FileNotFoundError as error:  # of the store
            if self._is_part(name) or isinstance(error, ObjectChanged):
                raise _Changed(name) from None
            return
        os.utime(path, (found.modified, found.modified))

    def _is_part(self, name: str) -> bool:
        """Whether a file is of no use without others of the same time."""
        return bool(names.unit_of(name)) or name.startswith(self._more)

    def _hold_locks(self, objects: Mapping[str, Object]) -> None:
        """Those that the processes of a run hold, if somebody has the lease."""
        self._locks.close()
        found = self._store.read(names.LEASE) if names.LEASE in objects else None
        if found is None or not lease.is_held(found[0], time.time() - objects[names.LEASE].modified):
            return
        for name in _held_locks(self.folder):
            self._locks.enter_context(locks.Lock(os.path.join(self.folder, name))).take()


class _Count:
    """Bytes that several threads count; an estimate for people."""

    bytes = 0


def files_below(folder: str) -> list[str]:
    """The names of all files, relative to the folder."""
    return [
        os.path.relpath(os.path.join(at, name), folder).replace(os.sep, '/')
        for at, _, files in os.walk(folder)
        for name in files
    ]


def _held_locks(folder: str) -> list[str]:
    """The locks that a run's processes hold, by its files, because a store has no locks: that of the trainer, and that
    of a supervisor, unless status.json is of an earlier run."""
    run = RunFolder(folder)
    is_new = _time(run.status) >= _time(run.training) - _SAME_SECS
    supervised = run.status and run.status.get('state') not in status_file.ENDS and is_new
    return [file_names.TRAINER_LOCK, *([file_names.SUPERVISOR_LOCK] if supervised else [])]


def _time(entry: Mapping) -> float:
    return float(entry['time']) if type(entry.get('time')) in (int, float) else 0.0


def _stamp(path: str) -> tuple[int, int] | None:
    with contextlib.suppress(FileNotFoundError):
        found = os.stat(path)
        return found.st_mtime_ns, found.st_size
    return None


def _parts(need: Need, size: int) -> Iterator[range]:
    """Of which bytes the content is fetched; of an end, one after the other until there is a line in it."""
    if need is not Need.END:
        yield range(0 if need is Need.WHOLE else size, size)
        return
    for tail in metrics_log.tails():
        yield range(max(0, size - tail - 1), size)  # with the end of the line before it
        if tail >= size:
            return


def _megabytes(size: int) -> str:
    return f'{size / 1e6:,.1f} MB'
