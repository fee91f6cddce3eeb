"""Finds what the user wants inspected, by names alone: the command can refuse a path before it imports TensorFlow."""

import os
from typing import NamedTuple

from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import file_names, sstable
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.tools.reporting import some

_NAMES = 6  # that a message names


class Place(NamedTuple):
    """What is inspected.

    Attributes:
        path: as the user has named it.
        run: the folder.
        only: the checkpoint that the user has named; '' for the whole folder.
    """

    path: str
    run: RunFolder
    only: str = ''

    @property
    def checkpoints(self) -> dict[str, list[str]]:
        """The names of the files of each checkpoint, the oldest first."""
        files = self.run.checkpoint_files
        return {self.only: files.get(self.only, [self.only])} if self.only else files

    @property
    def has_torn_pointer(self) -> bool:
        """Whether the file `checkpoint` is there and names nothing, or is not what TensorFlow writes."""
        pointer = self.run.pointer
        return file_names.POINTER in self.run.entries and (pointer.is_torn or not pointer.path)

    @property
    def elsewhere(self) -> str:
        """The path in the file `checkpoint`, if that is in another folder, as of a run that was moved; '' otherwise."""
        named = self.run.pointer.path
        folder = os.path.realpath(os.path.dirname(self.run.file(named)))
        return named if named and folder != os.path.realpath(self.run.path) else ''


def find(path: str) -> Place:
    """Looks at a folder, a checkpoint's prefix or a file of one.

    Raises:
        UsageError: there is nothing of TensorFlow's.
        OSError: it cannot be read.
    """
    given = os.path.abspath(os.path.expanduser(path))
    folder, name = os.path.split(given)
    if os.path.isdir(given):
        return _of_folder(path, given)
    if name in (*file_names.SAVED_MODEL, file_names.GRAPH, file_names.POINTER) and os.path.isfile(given):
        return _of_folder(os.path.dirname(path) or '.', folder)
    run, only = RunFolder(folder), file_names.checkpoint_of(name) or name
    if only in run.checkpoint_files or os.path.isfile(given) and sstable.is_table(given):
        return Place(path, run, only)
    if os.path.exists(given):
        raise UsageError(
            f'{path}: is no file of a checkpoint. Name a model_dir, a SavedModel or the prefix of a checkpoint.'
        )
    raise UsageError(f'{path}: there is no such folder or checkpoint.')


def _of_folder(path: str, root: str) -> Place:
    run = RunFolder(root)
    if file_names.POINTER in run.entries:
        with open(run.file(file_names.POINTER), 'rb'):  # RunFolder takes one that cannot be read for none
            pass
    signs = {file_names.GRAPH, file_names.CONFIG, file_names.POINTER} & set(run.entries)
    if run.checkpoint_files or run.saved_models or run.events() or signs:
        return Place(path, run)
    if not run.entries:
        raise UsageError(f'{path}: is empty.')
    raise UsageError(
        f'{path}: holds no checkpoint, no SavedModel, no graph.pbtxt and no events. It holds '
        f'{some(run.entries, _NAMES)}. Name a model_dir, a SavedModel or the prefix of a checkpoint.'
    )
