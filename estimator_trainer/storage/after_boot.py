"""What of a scratch folder is trusted after its machine was started again, maybe because it had lost its power.

A file that was not on the disk yet may then be empty, cut short, or full of zeros, under its own name. If it were sent,
it would replace a good one in the store. So each file that the store has too is one of these, or it is fetched again:

1. It is what was sent last, or begins with it, as a log that has grown.
2. It is whole JSON: a part of an object is none.
3. It is of a checkpoint whose data have the checksums of its index.

What only this folder has stays, because nobody else has it: files that were never sent, and a whole checkpoint that is
newer than the store's. The run goes on from that one, also if the file `checkpoint` here is torn. A checkpoint that is
damaged, and that the store does not have, is moved to `damaged/`, as the trainer does it.
"""

import contextlib
import json
import os
from collections.abc import Collection, Mapping
from typing import NamedTuple

from estimator_trainer.run_dir import bundle, file_names, files
from estimator_trainer.storage import names, snapshot
from estimator_trainer.storage.store import Object


class Findings(NamedTuple):
    """Attributes:
    untrusted: files that are fetched again.
    checkpoints: those that are needed from the store.
    """

    untrusted: set[str]
    checkpoints: set[str]


def look(
    folder: str, objects: Mapping[str, Object], sent: Mapping[str, str | None], newest: str | None, has_pointer: bool
) -> Findings:
    """Compares the folder with what was sent. Moves damaged checkpoints that the store does not have to `damaged/`.

    Args:
        folder: the run's.
        objects: of the store.
        sent: name -> digest of what was sent, and is in the store now; None: not known.
        newest: the checkpoint that the store's file `checkpoint` names.
        has_pointer: that file is of the share.

    Raises:
        OSError: a file cannot be read or moved.
    """
    here = [name for name in os.listdir(folder) if os.path.isfile(os.path.join(folder, name))]
    with_data = names.with_data([*here, *objects])
    checkpoints: dict[str, list[str]] = {}
    for name in here:
        if (unit := names.checkpoint_of(name)) and (names.is_of_run(unit) or unit in with_data):
            checkpoints.setdefault(unit, []).append(name)
    torn = {unit for unit, parts in checkpoints.items() if not _is_good(folder, unit, parts, sent)}
    in_store: dict[str, list[str]] = {}
    for name in objects:
        if (unit := names.checkpoint_of(name)) in torn and unit:
            in_store.setdefault(unit, []).append(name)
    needed = {unit for unit, parts in in_store.items() if names.is_whole(unit, parts)}
    of_needed = {name for unit in needed for name in in_store[unit]}
    untrusted = {name for name in of_needed if name not in here or not _is_sent(folder, name, sent)}
    for unit in torn:
        for name in checkpoints[unit]:
            if name not in of_needed:
                os.makedirs(os.path.join(folder, file_names.DAMAGED), exist_ok=True)
                os.replace(os.path.join(folder, name), os.path.join(folder, file_names.DAMAGED, name))
    if has_pointer and not _points(folder, checkpoints.keys() - torn, newest):
        untrusted.add(names.POINTER)
        needed |= {newest} if newest else set()
    for name, found in objects.items():
        unit = names.checkpoint_of(name)
        if unit in checkpoints:  # no checksum covers its graph
            judged = name.endswith('.meta') and unit not in torn and _is_sent(folder, f'{unit}.index', sent)
        else:
            judged = name not in (names.POINTER, names.START)
        path = os.path.join(folder, name)
        if judged and os.path.isfile(path) and not _is_trusted(path, found, sent.get(name)):
            untrusted.add(name)
    return Findings(untrusted, needed)


def of_lost_checkpoint(folder: str, objects: Mapping[str, Object], newest: str) -> set[str]:
    """The store's files of its newest checkpoint, if the trainer could go on from nothing as new as that one.

    So it is if neither the checkpoint that the file `checkpoint` here names nor the store's newest one is whole here: a
    cleaner has removed the largest files, or a disk has damaged them. This reads each file once.

    Args:
        newest: the checkpoint that the store's file `checkpoint` names.

    Raises:
        OSError: a file cannot be read now. That says nothing of its content.
    """
    with open(os.path.join(folder, names.POINTER), 'rb') as file:
        named = names.named_by(file.read())
    if any(_is_whole_here(folder, checkpoint) for checkpoint in dict.fromkeys((named, newest)) if checkpoint):
        return set()
    parts = {name for name in objects if names.checkpoint_of(name) == newest}
    if not names.is_whole(newest, parts):
        return set()
    return parts | ({names.POINTER} if named and newest == names.twin_of(named) else set())


def _is_whole_here(folder: str, checkpoint: str) -> bool:
    parts = [name for name in os.listdir(folder) if names.checkpoint_of(name) == checkpoint]
    return names.is_whole(checkpoint, parts) and is_of_one_save(os.path.join(folder, checkpoint))


def _is_good(folder: str, unit: str, parts: Collection[str], sent: Mapping[str, str | None]) -> bool:
    if not names.is_whole(unit, parts):
        return False
    return all(_is_sent(folder, name, sent) for name in parts) or is_of_one_save(os.path.join(folder, unit))


def _is_sent(folder: str, name: str, sent: Mapping[str, str | None]) -> bool:
    return sent.get(name) == snapshot.digest_of(os.path.join(folder, name))


def is_of_one_save(prefix: str) -> bool:
    """As snapshot.is_of_one_save, but raises OSError: a file that cannot be read now is not damaged."""
    with contextlib.suppress(ValueError):
        index = bundle.read(prefix)
        return not (bundle.missing_data(prefix, index) or bundle.wrong_checksum(prefix, index))
    return False


def _points(folder: str, whole: Collection[str], newest: str | None) -> bool:
    """Whether the file `checkpoint` names a whole checkpoint that is not older than the store's. If it does not, and
    there is a newer one than the store's, it is written, with all that are whole."""
    path = os.path.join(folder, names.POINTER)
    named: str | None = None
    least = names.step_of(newest) if newest else -1
    with contextlib.suppress(FileNotFoundError), open(path, 'rb') as file:
        named = names.named_by(file.read())
    if named in whole and names.step_of(named or '') >= least:
        return True
    of_run = sorted(filter(names.is_of_run, whole), key=names.step_of)
    if not of_run or names.step_of(of_run[-1]) <= least:
        return False
    with files.replacing(path, durable=True) as temporary, files.create(temporary, 'wb') as file:
        file.write(names.pointer_to_last(of_run))
    return True


def _is_trusted(path: str, found: Object, digest: str | None) -> bool:
    if path.endswith('.json'):
        with contextlib.suppress(ValueError, RecursionError), open(path, 'rb') as file:
            json.load(file)
            return True
    is_long_enough = os.path.getsize(path) >= found.size
    return digest is not None and is_long_enough and snapshot.digest_of(path, found.size) == digest
