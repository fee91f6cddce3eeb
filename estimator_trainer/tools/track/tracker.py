"""What a tracker can do, how it says that it cannot, and which adapter speaks to it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from estimator_trainer.monitoring import trackers

RUNNING, FINISHED, FAILED, KILLED = 'RUNNING', 'FINISHED', 'FAILED', 'KILLED'  # how a run is
_LONGEST = 300  # characters of a library's message


class TrackerUnavailable(Exception):
    """The tracker cannot be reached, or does not do what it should. Worth another try later."""


class EntryDeleted(Exception):
    """The entry was deleted there."""


class TrackerRefused(Exception):
    """The tracker will never take this. The rest goes on without it."""


class MetricsLine(NamedTuple):
    """A line of metrics. `values` have names such as 'train/loss', and are finite; `time`: seconds since the epoch."""

    kind: str
    step: int
    time: float
    values: dict[str, float]


class TrackedRun(NamedTuple):
    """What an entry is made of.

    Attributes:
        key: finds an entry again whose making was interrupted.
        group: of runs: the name of the folder that the model_dir is in.
        began: seconds since the epoch.
        folder: the model_dir.
        address: its path, or the URL of which it is a copy.
        scratch: a folder in it for what a library keeps on disk.
        params: what was computed.
        tags: with what and where it was computed.
    """

    key: str
    name: str
    group: str
    began: float
    folder: str
    address: str
    scratch: str
    params: dict[str, bool | int | float | str]
    tags: dict[str, str]


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


def make(target: trackers.Target) -> Tracker:
    """The adapter of a tracker. Raises TrackerUnavailable where its library cannot be used."""
    adapter = imported(target)
    return adapter(target.uri) if target.uri else adapter()


def imported(target: trackers.Target) -> Callable[..., Tracker]:
    """The class of an adapter, with its library. Raises TrackerUnavailable where that cannot be imported."""
    try:
        if target.kind == trackers.MLFLOW:
            from estimator_trainer.tools.track.mlflow_tracker import MlflowTracker

            return MlflowTracker
        if target.kind == trackers.WANDB:
            from estimator_trainer.tools.track.wandb_tracker import WandbTracker

            return WandbTracker
        from estimator_trainer.tools.track.hparams_tracker import HparamsTracker

        return HparamsTracker
    except Exception as error:
        raise TrackerUnavailable(words_of(error)) from error


def words_of(error: BaseException) -> str:
    """What an exception of a library says, as a part of a message: the system's words where these are the cause."""
    first = error
    while first.__cause__ or first.__context__:
        first = first.__cause__ or first.__context__
    if isinstance(first, OSError):
        return first.strerror or str(first) or type(first).__name__
    lines = str(error).strip().splitlines()
    return lines[0][:_LONGEST] if lines else type(error).__name__
