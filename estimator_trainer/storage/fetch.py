"""Fetches a run from the store into the scratch folder, at the start."""

import contextlib
import logging
import os
import re
import shutil
import time
from collections.abc import Collection, Iterable

from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import files, locks, removal
from estimator_trainer.storage import after_boot, names, scratch_state, snapshot
from estimator_trainer.storage.scratch_state import ScratchState
from estimator_trainer.storage.share import Share
from estimator_trainer.storage.store import Object, Store, StoreUnavailable

_log = logging.getLogger('estimator_trainer')
_UNFINISHED = removal.Named(r'.*\.\d+\.tmp')  # of `download`, and of others that replace a file at once


class Moved(StoreUnavailable):
    """An object was deleted or replaced while it was fetched."""


def fetch(store: Store, folder: str, state: ScratchState, share: Share, continues: bool) -> tuple[str | None, int]:
    """Makes the folder hold what the store has of a share.

    If this machine was started again since the folder was known to hold whole files, `after_boot` says which of them
    are fetched again, although the folder continues. A machine that does not say since when it runs counts as one that
    was not started again. If the newest checkpoint here is damaged, the store's newest one is fetched.

    Args:
        continues: nobody else has had the share since this folder was used. Its files are as new as the store's, or
            newer, but for those that others write there, such as `track`; else only what is missing is fetched.
            Otherwise the store's files replace them.

    Returns:
        The checkpoint that the store's file `checkpoint` names, if that file is of the share, and the number of bytes
        fetched.

    Raises:
        StoreUnavailable, StoreRefused: of the store.
        UsageError: the folder has too little room.
        OSError: of the folder.
    """
    objects = store.list()
    below = runs_below(objects)
    objects = {name: found for name, found in objects.items() if not name.startswith(below)}
    theirs = _theirs(folder, objects, state)
    sent = state.digests()
    state.compare(objects, theirs)
    pointer = store.read(names.POINTER) if share.owns(names.POINTER) else None
    newest = names.named_by(pointer[0]) if pointer else None
    evaluated = store.read(names.LAST_EVALUATION) if share.lease else None
    needed = {newest, names.owed_by(evaluated[0]) if evaluated else None}
    stay = {share.anchor, *share.lasting} & objects.keys()
    if not all(os.path.exists(os.path.join(folder, name)) for name in stay):
        continues = False  # somebody has emptied the folder
    _remove_unfinished(folder)
    untrusted: set[str] = set()
    if continues and state.boot != locks.boot_id() and state.boot and '?' not in (state.boot, locks.boot_id()):
        found = after_boot.look(folder, objects, state.digests(), newest, share.owns(names.POINTER))
        needed, there = {*found.checkpoints}, found.untrusted & objects.keys()
        untrusted = {name for name in there if share.owns(name) or names.checkpoint_of(name) in needed}
        if untrusted:
            said = 'WARNING: %s: this machine was started again and may have torn %d file(s), such as %s: fetches them'
            _log.warning(said, store.url, len(untrusted), min(untrusted))
    elif continues:
        needed = set()  # those that are missing here were thinned out, unless no good one is left
        if newest and share.owns(names.POINTER):
            untrusted = after_boot.of_lost_checkpoint(folder, objects, newest)
        if untrusted:
            said = 'WARNING: %s: the newest checkpoint in %s is damaged or not whole: fetches %s'
            _log.warning(said, store.url, folder, newest)
    else:
        only = _only_here(folder, sent if newest else {}) if share.owns(names.POINTER) else None
        if only:
            place = _set_aside(folder)
            _log.warning(
                'WARNING: %s does not have %s, which this machine has; it is kept in %s', store.url, only, place
            )
        state.start_over()
        _remove_others(folder, objects, share, needed)
    state.save()
    wanted = [name for name in objects if name in untrusted or _is_wanted(name, share, needed)]
    if continues:
        untrusted |= theirs
        stale = [name for name in wanted if name in untrusted or not os.path.exists(os.path.join(folder, name))]
    else:
        stale = [name for name in wanted if not _is_equal(folder, name, state, objects[name])]
        _remove(folder, stale)  # before there must be room for the new ones
    _check_room(store.url, folder, sum(objects[name].size for name in stale))
    for name in sorted(stale, key=lambda name: name == names.POINTER):  # last: what it names is here
        path = os.path.join(folder, name)
        download(store, name, path, objects[name])
        state.put(name, snapshot.digest_of(path), objects[name].version)
    if not continues:  # what was not fetched is nothing that the trainer may have removed here
        for name in state.digests():
            if not os.path.exists(os.path.join(folder, name)):
                state.forget(name)
    if share.owns(names.START):
        _remove_start(store, folder, state, objects)
    state.boot = locks.boot_id()
    state.save()
    return newest, sum(objects[name].size for name in stale)


def runs_below(objects: Collection[str]) -> tuple[str, ...]:
    """The folders that are runs of their own, each with a slash at its end. What is in them is not ours."""
    return tuple(name.removesuffix(names.LEASE) for name in objects if name.endswith(f'/{names.LEASE}'))


def _theirs(folder: str, objects: dict[str, Object], state: ScratchState) -> set[str]:
    """What others have written in the store, where the file here is still what was sent.

    None of a checkpoint or SavedModel, and not which one is named: those are of whoever has the lease. If another
    trainer was frozen and has written parts of one after it had lost the lease, those here are the good ones.
    """
    return {
        name
        for name, digest in state.digests().items()
        if name in objects
        and state.has_changed(name, objects[name])
        and digest is not None
        and name != names.POINTER
        and not names.unit_of(name)
        and _digest(os.path.join(folder, name)) == digest
    }


def _digest(path: str) -> str | None:
    with contextlib.suppress(OSError):  # it is not there, or a folder
        return snapshot.digest_of(path)
    return None


def _check_room(url: str, folder: str, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise UsageError(
            f'--scratch_dir={os.path.dirname(folder)}: {_megabytes(needed)} of {url} are needed there, and it has room '
            f'for {_megabytes(free)}; make room, or name a folder with more.'
        )


def _megabytes(size: int) -> str:
    return f'{size / 1e6:,.1f} MB'


def _remove_start(store: Store, folder: str, state: ScratchState, objects: dict[str, Object]) -> None:
    """Removes what an earlier start has told the other tasks: they would fetch the checkpoint that it names."""
    if names.START in objects:
        store.delete(names.START)
        state.forget(names.START)
    removal.file(os.path.join(folder, names.START), removal.Named(re.escape(names.START)))


def download(store: Store, name: str, path: str, found: Object) -> None:
    """Fetches an object into a file, whole or not at all.

    Args:
        found: the object as it was listed.

    Raises:
        Moved, StoreUnavailable, StoreRefused: of the store.
        OSError: of the file.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        with files.replacing(path, durable=True) as temporary:
            with open(temporary, 'wb') as file:
                for chunk in store.chunks(name):
                    file.write(chunk)
                size = file.tell()
            if size != found.size:
                raise Moved(f'{store.url}: {name} has changed while it was fetched')
    except FileNotFoundError:
        raise Moved(f'{store.url}: {name} was deleted while it was fetched') from None


def _is_wanted(name: str, share: Share, needed: set) -> bool:
    return names.is_fetched(name, needed) and (share.owns(name) or names.checkpoint_of(name) in needed - {None})


def _is_equal(folder: str, name: str, state: ScratchState, found: Object) -> bool:
    """Whether the file here is what the store has."""
    path, digest = os.path.join(folder, name), state.digests().get(name)
    return (
        digest is not None
        and not state.has_changed(name, found)
        and os.path.exists(path)
        and os.path.getsize(path) == found.size
        and snapshot.digest_of(path) == digest
    )


def _remove(folder: str, stale: Iterable[str]) -> None:
    for name in stale:
        removal.file(os.path.join(folder, name), _ours(folder))


def _ours(folder: str) -> removal.Proof:
    """What is in the scratch folder: beside the run stands what this program knows of the store."""
    return removal.Marked(os.path.dirname(folder), scratch_state.NAME)


def _remove_unfinished(folder: str) -> None:
    """Removes what a process that was killed was fetching."""
    for at, _, _ in os.walk(folder):
        removal.files_in(at, _UNFINISHED)


def _only_here(folder: str, sent: dict[str, str | None]) -> str | None:
    """The newest checkpoint of the folder, if it was never sent; None: it was, or there is none."""
    try:
        with open(os.path.join(folder, names.POINTER), 'rb') as file:
            newest = names.named_by(file.read())
    except FileNotFoundError:
        return None
    index = f'{newest}.index'
    digest = _digest(os.path.join(folder, index)) if newest else None
    return newest if digest is not None and digest != sent.get(index) else None


def _set_aside(folder: str) -> str:
    """Renames the folder, and makes an empty one of its name. The new name."""
    place = f'{folder}.unsent-{time.strftime("%Y%m%d-%H%M%S")}'
    os.rename(folder, place)
    os.mkdir(folder, 0o700)
    return place


def _remove_others(folder: str, objects: dict[str, Object], share: Share, needed: set) -> None:
    """Removes what the store's run does not have."""
    kept = {name for name in objects if _is_wanted(name, share, needed)}
    pointer = os.path.join(folder, names.POINTER)
    ours = _ours(folder)
    if os.path.exists(pointer):
        removal.file(pointer, ours)  # first: without it nothing here is a run
    for at, _, found in os.walk(folder):
        for name in found:
            path = os.path.join(at, name)
            if os.path.relpath(path, folder).replace(os.sep, '/') not in kept:
                removal.file(path, ours)
    removal.files_below(os.path.join(folder, 'damaged'), ours)
