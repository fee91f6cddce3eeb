"""What was sent to a tracker, in track/<tracker>.json of the model_dir. One process at a time has it."""

import contextlib
import dataclasses
import os
import time
import uuid
from collections.abc import Callable, Iterator

from estimator_trainer.monitoring.trackers import Target
from estimator_trainer.run_dir import locks, protocol

FOLDER = 'track'


@dataclasses.dataclass
class FileProgress:
    """How far a file of metrics was sent.

    Attributes:
        position: bytes that were read.
        head: a checksum of the first line, by which another file is noticed.
        lines: how many were read, and the number of the last one that was sent; both count from 1.
        waiting: the last line, if it was not sent.
    """

    position: int = 0
    head: int | None = None
    lines: int = 0
    last: int = 0
    waiting: dict | None = None


@dataclasses.dataclass
class TrackingState:
    """What a tracker has of a run.

    Attributes:
        key: of the run, made before the tracker is asked for an entry: an entry whose making was interrupted is found
            again by it.
        entry: the tracker's id of the run; '' before there is one.
        began: when the run was first looked at, seconds since the epoch.
        files: path in the model_dir -> how far it was sent.
        exports: paths in the model_dir of those that were sent.
    """

    key: str
    began: float
    entry: str = ''
    files: dict[str, FileProgress] = dataclasses.field(default_factory=dict)
    exports: list[str] = dataclasses.field(default_factory=list)


def new() -> TrackingState:
    return TrackingState(uuid.uuid4().hex, round(time.time(), 3))


class AlreadyTracked(Exception):
    """Another process sends to this tracker. The message names it."""


@contextlib.contextmanager
def hold(model_dir: str, target: Target, written: Callable[[], None] = lambda: None) -> Iterator['StateFile']:
    """The state of a tracker, for this process alone.

    Args:
        written: called when it was written.

    Raises:
        AlreadyTracked: another process has it.
        OSError: it cannot be written.
    """
    folder = os.path.join(model_dir, FOLDER)
    os.makedirs(folder, exist_ok=True)
    with locks.Lock(os.path.join(folder, f'.{target.file_name}.lock')) as lock:
        if not lock.take():
            raise AlreadyTracked(f'{lock.holder()} sends there already; wait for it')
        path = os.path.join(folder, f'{target.file_name}.json')
        protocol.remove_unfinished(path)
        yield StateFile(path, target, written)


class StateFile:
    def __init__(self, path: str, target: Target, written: Callable[[], None]):
        self._path, self._target, self._written = path, target, written

    def read(self) -> TrackingState:
        """What is there; a new state where there is nothing, or nothing of ours."""
        value = protocol.read_json(self._path)
        try:
            files = {name: FileProgress(**sent) for name, sent in value['files'].items()}
            return TrackingState(value['key'], value['began'], value['entry'], files, list(value['exports']))
        except (KeyError, TypeError, AttributeError):
            return new()

    def write(self, state: TrackingState) -> None:
        """Writes it whole or not at all.

        Raises:
            OSError: it cannot be written.
        """
        protocol.write_json(self._path, {'to': str(self._target), **dataclasses.asdict(state)})
        self._written()
