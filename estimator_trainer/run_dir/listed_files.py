"""The checkpoints, SavedModels and logs in a model_dir, by the names and sizes of their files."""

import contextlib
import glob
import os
import re
from collections.abc import Collection
from typing import NamedTuple

from estimator_trainer.run_dir import file_names

_PARTS = re.compile(r'(\d+)')  # the numbers in a path
_V1 = re.compile(r'(.+\.ckpt(?:-\d+)?)(?:-\d{5}-of-\d{5})?')  # a file of a checkpoint of format V1 of any program
_DEPTH = 3  # of export/NAME/TIME


class Checkpoint(NamedTuple):
    """A checkpoint of format V2, by its index, which is written last.

    Attributes:
        name: without its folder, such as 'model.ckpt-20', or 'model.ckpt-again-20' for its second name in a store.
        step: the global step in its name; None: the name has none.
        bytes: of all its files.
        time: of the last change of its index, seconds since the epoch.
        is_damaged: the trainer has moved it to damaged/.
    """

    name: str
    step: int | None
    bytes: int
    time: float
    is_damaged: bool = False


class Export(NamedTuple):
    """A folder of export/ that is named by a time, as SavedModels are.

    Attributes:
        path: relative to the model_dir, such as 'export/best/1700000000'.
        is_whole: its saved_model file is there, which is written last.
    """

    path: str
    is_whole: bool

    @property
    def kind(self) -> str:
        """'best', 'final' or 'step_20'."""
        return self.path.split('/')[1]

    @property
    def number(self) -> int:
        """The time in its name, in seconds or milliseconds since the epoch."""
        return int(self.path.rpartition('/')[2])

    @property
    def time(self) -> float:
        """The time in its name, in seconds since the epoch."""
        return self.number if self.number < 1e11 else self.number / 1000


class Log(NamedTuple):
    """A file of logs/."""

    path: str  # relative to the model_dir
    bytes: int


def checkpoints(folder: str, files: Collection[str], is_damaged: bool = False) -> list[Checkpoint]:
    """The checkpoints among the files of a folder, by step; first those without a step in their names."""
    sizes = {name.removesuffix('.index'): 0 for name in files if name.endswith('.index')}
    times = dict.fromkeys(sizes, 0.0)
    for name in files:
        checkpoint = file_names.checkpoint_of(name)
        if checkpoint in sizes:
            with contextlib.suppress(OSError):  # a run that goes on removes old ones
                stat = os.stat(os.path.join(folder, name))
                sizes[checkpoint] += stat.st_size
                times[checkpoint] = stat.st_mtime if name.endswith('.index') else times[checkpoint]
    return [
        Checkpoint(name, file_names.step_of(name), sizes[name], times[name], is_damaged)
        for name in sorted(sizes, key=_by_step)
    ]


def checkpoint_files(folder: str, names: Collection[str], listed: Collection[str]) -> dict[str, list[str]]:
    """The files of each checkpoint of either format, those without an index too: its name -> their names, by step.

    A checkpoint of which only the graph is left is none.

    Args:
        names: of all files of the folder.
        listed: the checkpoints that the file `checkpoint` lists. One of format V1 may have any name.
    """
    files: dict[str, list[str]] = {}
    for name in names:
        of_v1 = name if name in listed else (match := _V1.fullmatch(name)) and match[1]
        checkpoint = file_names.checkpoint_of(name) or of_v1
        if checkpoint and os.path.isfile(os.path.join(folder, name)):
            files.setdefault(checkpoint, []).append(name)
    there = (name for name in files if name in listed or not all(each.endswith('.meta') for each in files[name]))
    return {name: files[name] for name in sorted(there, key=_by_step)}


def _by_step(checkpoint: str) -> tuple[int, str]:
    step = file_names.step_of(checkpoint)
    return -1 if step is None else step, checkpoint


def exports(model_dir: str) -> list[Export]:
    """The SavedModels in export/. A folder with another name, such as temp-1700000000, is still being written."""
    paths = [path for path in glob.glob(f'{glob.escape(model_dir)}/export/*/*') if os.path.basename(path).isdigit()]
    listed = [
        Export(
            os.path.relpath(path, model_dir), any(os.path.isfile(f'{path}/{name}') for name in file_names.SAVED_MODEL)
        )
        for path in paths
        if os.path.isdir(path)
    ]
    return sorted(listed, key=lambda each: (each.kind, each.number))


def saved_models(folder: str) -> list[str]:
    """The SavedModels in a folder ('.') and up to three folders below it, such as 'export/best/17'. Those that are
    still being written, below a folder such as temp-17, are left out."""
    paths = (path for depth in range(_DEPTH + 1) for path in glob.glob(f'{glob.escape(folder)}{"/*" * depth}'))
    relative = (
        os.path.relpath(path, folder)
        for path in paths
        if any(os.path.isfile(f'{path}/{name}') for name in file_names.SAVED_MODEL)
    )
    return sorted(path for path in relative if '/temp-' not in f'/{path}')


def logs(model_dir: str) -> list[Log]:
    """The files of logs/ that are not empty; attempt-2 comes before attempt-10."""
    listed = []
    for path in glob.glob(f'{glob.escape(model_dir)}/logs/*/*'):
        with contextlib.suppress(OSError):
            size = os.path.getsize(path)
            if size and os.path.isfile(path):
                listed.append(Log(os.path.relpath(path, model_dir), size))
    return sorted(listed, key=lambda each: [int(part) if part.isdigit() else part for part in _PARTS.split(each.path)])
