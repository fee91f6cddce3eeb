"""Finds what a folder has of TensorFlow's, by names and sizes. Imports no TensorFlow."""

import glob
import os
import re
from typing import NamedTuple

from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import file_names, sstable
from estimator_trainer.run_dir.run_folder import RunFolder

_DEPTH = 3  # of export/NAME/TIME
_NAMES = 6  # that a message names


class Place(NamedTuple):
    """What there is.

    Attributes:
        path: as the user has named it; `root` is the folder.
        only: the checkpoint that the user has named; '' for the whole folder.
        checkpoints: their names, the oldest first; for each name the files.
        named: the checkpoint that the file `checkpoint` names, or ''.
        elsewhere: the path that it names, if that lies in another folder; otherwise ''.
        state_damage: what is wrong with that file, or ''.
        exports: folders of SavedModels, relative to root.
        evaluations: relative folder -> files of events.
        is_own: whether it has the config.json of a run of this trainer.
        has_keras_folder: `keras/` with a checkpoint, which model_to_estimator makes.
    """

    path: str
    root: str
    only: str
    checkpoints: dict[str, list[str]]
    named: str
    elsewhere: str
    state_damage: str
    graph: str
    exports: list[str]
    evaluations: dict[str, list[str]]
    training_events: list[str]
    is_own: bool
    has_keras_folder: bool


def find(path: str) -> Place:
    """Looks at a folder, a checkpoint's prefix or a file of one.

    Raises:
        UsageError: there is nothing of TensorFlow's.
        OSError: it cannot be read.
    """
    given = os.path.abspath(os.path.expanduser(path))
    if os.path.isdir(given):
        return _of_folder(path, given)
    root, name = os.path.split(given)
    if name in (*file_names.SAVED_MODEL, file_names.GRAPH, file_names.POINTER) and os.path.isfile(given):
        return _of_folder(os.path.dirname(path) or '.', root)
    prefix = file_names.checkpoint_of(name) or name
    if glob.glob(f'{glob.escape(os.path.join(root, prefix))}.*') or os.path.isfile(given) and sstable.is_table(given):
        place = _of_folder(path, root, prefix)
        if prefix in place.checkpoints:
            return place
    if os.path.exists(given):
        raise UsageError(
            f'{path}: is no file of a checkpoint. Name a model_dir, a SavedModel or the prefix of a checkpoint.'
        )
    raise UsageError(f'{path}: there is no such folder or checkpoint.')


def _of_folder(path: str, root: str, only: str = '') -> Place:
    run = RunFolder(root)
    names = run.entries
    pointer, damage = _pointer(run)
    listed = {os.path.basename(each) for each in pointer.listed}
    place = Place(
        path=path,
        root=root,
        only=only,
        checkpoints=_checkpoints(root, names, {only, *listed} - {''}),
        named=pointer.name,
        elsewhere=_elsewhere(root, pointer.path),
        state_damage=damage,
        graph=run.file(file_names.GRAPH) if file_names.GRAPH in names else '',
        exports=_exports(root),
        evaluations={folder: events for folder in run.evaluation_folders if (events := run.events(folder))},
        training_events=run.events(),
        is_own=file_names.CONFIG in names,
        has_keras_folder=os.path.isfile(run.file(f'keras/{file_names.POINTER}')),
    )
    if not (
        place.checkpoints
        or place.exports
        or place.graph
        or place.training_events
        or place.is_own
        or place.named
        or damage
    ):
        if not names:
            raise UsageError(f'{path}: is empty.')
        more = f' and {len(names) - _NAMES} more' if len(names) > _NAMES else ''
        raise UsageError(
            f'{path}: holds no checkpoint, no SavedModel, no graph.pbtxt and no events. It holds '
            f'{", ".join(names[:_NAMES])}{more}. Name a model_dir, a SavedModel or the prefix of a checkpoint.'
        )
    return place


def _pointer(run: RunFolder) -> tuple[file_names.Pointer, str]:
    """What the file `checkpoint` says, and what is wrong with it. Raises OSError if it cannot be read."""
    if file_names.POINTER not in run.entries:
        return run.pointer, ''
    with open(run.file(file_names.POINTER), 'rb') as file:  # RunFolder takes one that cannot be read for none
        is_empty = not file.read(1 << 20).strip(b'\r\n')
    if run.pointer.is_torn or not run.pointer.path:
        how = 'is empty' if is_empty else 'was cut short or is not text of TensorFlow'
        return run.pointer, f'the file `checkpoint` {how}'
    return run.pointer, ''


def _elsewhere(root: str, named: str) -> str:
    """The path that is named, if that is not in this folder: of a run that was copied or moved."""
    folder = os.path.realpath(os.path.dirname(os.path.join(root, named)))
    return named if named and folder != os.path.realpath(root) else ''


def _checkpoints(root: str, names: list[str], listed: set[str]) -> dict[str, list[str]]:
    """Name -> files. A checkpoint of format V1 is one file, which has the name itself."""
    by_name: dict[str, list[str]] = {}
    for name in names:
        checkpoint = file_names.checkpoint_of(name)
        is_v1 = name != file_names.POINTER and (name in listed or re.search(r'\.ckpt(?:-\d+)?$', name))
        if (checkpoint or is_v1) and os.path.isfile(os.path.join(root, name)):
            by_name.setdefault(checkpoint or name, []).append(name)
    with_data = {
        name: files
        for name, files in by_name.items()
        if name in listed or not all(each.endswith('.meta') for each in files)
    }

    def order(item: tuple[str, list[str]]) -> tuple[int, str]:
        step = file_names.step_of(item[0])
        return -1 if step is None else step, item[0]

    return dict(sorted(with_data.items(), key=order))


def _exports(root: str) -> list[str]:
    folders = []
    for folder, inner, files in os.walk(root):
        relative = os.path.relpath(folder, root)
        depth = 0 if relative == '.' else relative.count(os.sep) + 1
        if set(file_names.SAVED_MODEL) & set(files):
            folders.append(relative)
            inner.clear()
        elif depth >= _DEPTH:
            inner.clear()
        inner[:] = sorted(name for name in inner if not name.startswith(('.', 'temp-')))
    return sorted(folders)
