"""What a tracker can do, and how it says that it cannot."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from estimator_trainer.tools.track.unsent import Facts, MetricsLine

RUNNING, FINISHED, FAILED, KILLED = 'RUNNING', 'FINISHED', 'FAILED', 'KILLED'  # how a run is
_LONGEST = 300  # characters of a library's message


class TrackerUnavailable(Exception):
    """The tracker cannot be reached, or does not do what it should. Worth another try later."""


class EntryDeleted(Exception):
    """The entry was deleted there."""


class TrackerRefused(Exception):
    """The tracker will never take this. The rest goes on without it."""


class TrackedRun(NamedTuple):
    """What an entry is made of.

    Attributes:
        key: finds an entry again whose making was interrupted.
        group: of runs: the name of the folder that the model_dir is in.
        began: seconds since the epoch.
        folder: the model_dir.
        shown: its path, or the URL of which it is a copy.
        scratch: a folder in it for what a library keeps on disk.
    """

    key: str
    name: str
    group: str
    began: float
    folder: str
    shown: str
    scratch: str
    facts: Facts


class Tracker(Protocol):
    """Every method raises TrackerUnavailable, and takes a bounded time where the library allows it.

    Attributes:
        confirms: what a method was given is at the tracker when it returns; otherwise it is when `end` returns.
    """

    confirms: bool

    def begin(self, run: TrackedRun, entry: str) -> str:
        """Continues `entry`, or makes one if that is ''. Its id. Raises EntryDeleted."""

    def lines(self, lines: Sequence[MetricsLine]) -> None:
        """Raises TrackerRefused."""

    def export(self, folder: str, name: str) -> None:
        """Keeps a SavedModel as an artifact. Raises TrackerRefused."""

    def end(self, status: str, at: float) -> None:
        """Nothing follows. With RUNNING the run goes on elsewhere."""


def words_of(error: BaseException) -> str:
    """What an exception of a library says, as a part of a message: the system's words where these are the cause."""
    first = error
    while first.__cause__ or first.__context__:
        first = first.__cause__ or first.__context__
    if isinstance(first, OSError):
        return first.strerror or str(first) or type(first).__name__
    lines = str(error).strip().splitlines()
    return lines[0][:_LONGEST] if lines else type(error).__name__
