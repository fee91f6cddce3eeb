"""Sends the scratch folder to the store, one pass at a time: takes a snapshot, plans, and carries the plan out."""

import contextlib
import errno
import os
import stat
import time
from collections.abc import Container, Iterator

from estimator_trainer.storage import fetch, names, send_order
from estimator_trainer.storage.lease import Lease, NoLease
from estimator_trainer.storage.scratch_state import ScratchState
from estimator_trainer.storage.send_speed import SentCheckpoint
from estimator_trainer.storage.share import Share
from estimator_trainer.storage.snapshot import FileChanged, Local, SnapshotTaker, Unsteady
from estimator_trainer.storage.store import ONE_REQUEST_BYTES, Conflict, Object, Store, StoreError, Version


class Mirror:
    """Makes a store equal to a scratch folder.

    Args:
        store, lease: held by this process.
        scratch: the scratch folder; the run is in its folder `run`.
        state: of the scratch folder, after the run was fetched.
        newest: the checkpoint that the store's file `checkpoint` names; None where that file is not of the share.
        keep: checkpoints of another machine stay in the store while there are no more than so many; 0: always.
        share: what this process sends.

    Attributes:
        sent_bytes, operations: so far.
        advances: how often a pass has come to its end, has sent a checkpoint, or has done what one before could not.
            Small files that get through are none while a checkpoint does not.
        unsteady: files that the last pass has left out, because they changed while they were sent. The run in the store
            is whole without them.
        newest: the checkpoint that the store's file `checkpoint` names now.
        last: the one that this process has sent last.
    """

    def __init__(
        self,
        store: Store,
        lease: Lease | NoLease,
        scratch: str,
        state: ScratchState,
        newest: str | None,
        keep: int,
        share: Share,
    ):
        self._store, self._lease, self._state, self._keep, self._share = store, lease, state, keep, share
        self._folder = run_folder(scratch)
        self._reader = SnapshotTaker(self._folder, links_folder(scratch), share)
        self._news: tuple | None = None  # of the snapshot that is being sent
        self._foreign: dict[str, Object] = {}
        self._below: tuple[str, ...] = ()  # folders that are runs of their own: not ours
        self.newest, self.sent_bytes, self.operations, self.advances = newest, 0, 0, 0
        self.unsteady: list[str] = []
        self._stuck: str | None = None  # the object at which a pass was interrupted
        self.last: SentCheckpoint | None = None

    def look(self) -> None:
        """Learns which checkpoints of another machine the store has, and which other runs. Raises StoreError."""
        if not self._share.owns(names.POINTER):
            return
        objects, known = self._store.list(), self._state.digests()
        self._below = fetch.runs_below(objects)
        self._foreign = {
            name: found for name, found in objects.items() if names.checkpoint_of(name) and name not in known
        }

    def has_news(self) -> bool:
        """Whether a checkpoint was saved, or something else that others wait for, since the last pass began."""
        return self._reader.news() != self._news

    def push(self) -> bool:
        """One pass. Whether the store now has the checkpoint that the local file `checkpoint` names; not if that one is
        not whole, and then the store keeps the one it has.

        Raises:
            FileChanged: a file has changed meanwhile, or there is a newer checkpoint: it is time for another pass. Not
                for those in `unsteady`.
            lease.LeaseLost: another trainer has the store now.
            StoreError: it was interrupted. The store holds a whole run, and the next pass goes on.
            OSError: of the scratch folder.
        """
        began, before = time.monotonic(), self.sent_bytes
        self._ask_what_is_named()
        self._news = self._reader.news()
        snapshot = self._reader.take()
        known = self._state.digests()
        self.unsteady = []
        self._refuse_an_emptied_folder(known)
        local = {name: found.digest for name, found in snapshot.contents.items() if not name.startswith(self._below)}
        ours = [name for name in known if self._share.owns(name) and not name.startswith(self._below)]
        remote = {name: known[name] for name in ours} | dict.fromkeys(self._foreign)
        for op in send_order.plan(local, remote, snapshot.newest, self.newest, self._foreign, self._keep):
            if self.newest == snapshot.newest and self.has_news():
                raise FileChanged(names.POINTER)  # the news go first
            try:
                self._lease.check()
                if op.source is None:
                    if names.is_last_export(op.name, known, local):
                        continue  # no trainer removes it: a cleaner of old files has
                    self._refuse_an_emptied_folder(known)  # it may have been half empty when the pass began
                    if self._is_there(op.name) and op.name not in local and not names.unit_of(op.name):
                        self.unsteady.append(op.name)  # it was cut short while it was read
                        continue
                    self._delete(op.name)
                else:
                    self._put(op.name, snapshot.contents[op.source])
            except Unsteady:
                if not names.stands_alone(op.name):
                    raise
                self.unsteady.append(op.name)
                continue
            except (StoreError, OSError):
                if self._stuck is None or not names.is_early(op.name):
                    self._stuck = op.name
                raise
            if op.name == names.POINTER and op.source is not None:
                self.newest = names.named_by(snapshot.contents[op.source].data or b'')
                self.last = SentCheckpoint(self.newest or '', self.sent_bytes - before, time.monotonic() - began)
            self.operations += 1
            if self._stuck in (None, op.name) or op.name == names.POINTER:
                self._advance()
        self._advance()
        if self.has_news():
            raise FileChanged(names.POINTER)
        return snapshot.newest is not None or not self._reader.has_pointer()

    def _refuse_an_emptied_folder(self, known: Container[str]) -> None:
        """A cleaner of caches may remove the scratch folder while the run goes on: that deletes nothing in the store.
        Raises OSError."""
        for name in self._share.lasting:
            if name in known and not os.path.lexists(os.path.join(self._folder, name)):
                why = f'the scratch folder was emptied while the run went on: {name} is gone'
                raise FileNotFoundError(errno.ENOENT, f'{why}. Nothing is deleted in the store', self._folder)

    def _is_there(self, name: str) -> bool:
        """Whether a regular file is there, and not by a link to another folder. Raises OSError: what a failing file
        system does not show is not gone."""
        path = os.path.join(self._folder, name)
        folder = os.path.normpath(os.path.join(os.path.realpath(self._folder), os.path.dirname(name)))
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return stat.S_ISREG(os.lstat(path).st_mode) and os.path.realpath(os.path.dirname(path)) == folder
        return False

    def _advance(self) -> None:
        self._stuck = None
        self.advances += 1

    def _ask_what_is_named(self) -> None:
        """A `checkpoint` file that was being written when the store failed may be there, or not."""
        if self._share.owns(names.POINTER) and self._state.digests().get(names.POINTER, '') is None:
            found = self._store.read(names.POINTER)
            self.newest = names.named_by(found[0]) if found else None

    def _put(self, name: str, content: Local) -> None:
        """The state says that the object is ours before it is there, and what it holds afterwards."""
        replaces = self._version(name)
        self._remember(name, None, replaces or Version(None))
        try:
            if content.size > ONE_REQUEST_BYTES:
                version = self._store.write_parts(name, content.size, self._checked(content))
            else:
                version = self._store.write(name, b''.join(content.chunks()), replaces)
        except Conflict:
            self._lease.renew()  # LeaseLost, if another trainer has written it
            found = self._store.list().get(name)  # else it was us, before we were killed
            if found:
                self._remember(name, None, found.version)
            else:
                self._state.forget(name)
            raise FileChanged(name) from None
        self._remember(name, content.digest, version)
        self.sent_bytes += content.size

    def _checked(self, content: Local) -> Iterator[bytes]:
        """A write in parts has no condition. It is given up if the lease was lost meanwhile."""
        for chunk in content.chunks():
            yield chunk
            self._lease.check()

    def _delete(self, name: str) -> None:
        self._store.delete(name)
        self._foreign.pop(name, None)
        self._state.forget(name)
        self._state.save()

    def _version(self, name: str) -> Version | None:
        version = self._state.version(name)
        if name in self._foreign:
            version = self._foreign[name].version
        return version if version and version.e_tag else None

    def _remember(self, name: str, digest: str | None, version: Version) -> None:
        self._foreign.pop(name, None)
        self._state.put(name, digest, version)
        self._state.save()


def run_folder(scratch: str) -> str:
    """The folder in which the run works."""
    return os.path.join(scratch, 'run')


def links_folder(scratch: str) -> str:
    """The folder for links to the checkpoint that is being sent."""
    return os.path.join(scratch, 'sending')
