"""A timeline as values: lanes with bars and marks, and events in words."""

import dataclasses

RUNS, TRAINS = 'runs', 'trains'  # bars
START, RESTART, KILLED, FAILED, ENDED, STOPPED = 'start', 'restart', 'killed', 'failed', 'ended', 'stopped'  # marks
CHECKPOINT, EVALUATION, BEST = 'checkpoint', 'evaluation', 'best'


@dataclasses.dataclass(frozen=True)
class Bar:
    began: float  # seconds since the epoch
    ended: float
    kind: str


@dataclasses.dataclass(frozen=True)
class Mark:
    at: float
    kind: str


@dataclasses.dataclass
class Lane:
    name: str
    bars: list[Bar] = dataclasses.field(default_factory=list)
    marks: list[Mark] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Event:
    """One line of the list of events. `bad`: something was lost or failed. `traceback`: its lines."""

    at: float
    text: str
    bad: bool = False
    details: tuple[str, ...] = ()
    traceback: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Timeline:
    began: float
    ended: float
    lanes: tuple[Lane, ...]
    events: tuple[Event, ...]
    left_out: int = 0  # events
