"""The checkpoints, SavedModels and logs in a model_dir, by the names and sizes of their files."""

import contextlib
import glob
import os
import re
from collections.abc import Collection
from typing import NamedTuple

from estimator_trainer.run_dir import file_names

_PARTS = re.compile(r'(\d+)')  # the numbers in a path


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
    listed = (Checkpoint(name, file_names.step_of(name), sizes[name], times[name], is_damaged) for name in sizes)
    return sorted(listed, key=lambda each: (-1 if each.step is None else each.step, each.name))


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


def logs(model_dir: str) -> list[Log]:
    """The files of logs/ that are not empty; attempt-2 comes before attempt-10."""
    listed = []
    for path in glob.glob(f'{glob.escape(model_dir)}/logs/*/*'):
        with contextlib.suppress(OSError):
            size = os.path.getsize(path)
            if size and os.path.isfile(path):
                listed.append(Log(os.path.relpath(path, model_dir), size))
    return sorted(listed, key=lambda each: [int(part) if part.isdigit() else part for part in _PARTS.split(each.path)])
