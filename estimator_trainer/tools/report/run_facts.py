"""What is known of a run, from its files: values that the rest of the package works with."""

import dataclasses
from typing import NamedTuple

from estimator_trainer.supervisor.reports import earlier_starts
from estimator_trainer.tools.report.curves import Log
from estimator_trainer.tools.report.run_verdict import Alive
from estimator_trainer.tools.report.variables import CheckpointVariables


class ListedCheckpoint(NamedTuple):
    name: str
    step: int | None
    bytes: int
    time: float  # of the last change, seconds since the epoch
    damaged: bool = False  # the trainer has moved it to damaged/


class ListedExport(NamedTuple):
    """A SavedModel in export/KIND."""

    path: str  # relative to the model_dir
    kind: str
    time: float
    bytes: int
    step: int | None = None  # of `best`, which best.json tells
    metric: str = ''
    value: float | None = None


class ListedFile(NamedTuple):
    path: str  # relative to the model_dir
    bytes: int


@dataclasses.dataclass
class RunFiles:
    """One model_dir. Whatever is missing or damaged is empty, and `notes` say so.

    Attributes:
        path: the folder.
        shown: how the page names it: by that path, or by the URL of which it is a copy.
        name: a short name, unlike those of other runs on the same page.
        read_at: seconds since the epoch.
        config, training, status, report, earlier, best, stop: config.json and so on; `earlier` is earlier_starts.json.
        train: metrics.jsonl, or the events of a run without one.
        starts: when a process began to train, seconds since the epoch, as the names of its files of events say.
        evaluations: folder -> eval/metrics.jsonl, or the events of the folder.
        table: variables of the newest checkpoint that could be read.
    """

    path: str
    shown: str
    name: str
    read_at: float
    config: dict = dataclasses.field(default_factory=dict)
    training: dict = dataclasses.field(default_factory=dict)
    status: dict = dataclasses.field(default_factory=dict)
    report: dict = dataclasses.field(default_factory=dict)
    earlier: dict = dataclasses.field(default_factory=dict)
    best: dict = dataclasses.field(default_factory=dict)
    stop: dict = dataclasses.field(default_factory=dict)
    train: Log = dataclasses.field(default_factory=Log)
    starts: list[float] = dataclasses.field(default_factory=list)
    evaluations: dict[str, Log] = dataclasses.field(default_factory=dict)
    checkpoints: list[ListedCheckpoint] = dataclasses.field(default_factory=list)
    exports: list[ListedExport] = dataclasses.field(default_factory=list)
    logs: list[ListedFile] = dataclasses.field(default_factory=list)
    table: CheckpointVariables | None = None
    alive: Alive = Alive()
    notes: list[str] = dataclasses.field(default_factory=list)

    @property
    def flags(self) -> dict:
        return self.config['flags'] if isinstance(self.config.get('flags'), dict) else {}

    @property
    def gang_starts(self) -> list[dict]:
        """How often a supervisor was started here: each start as report.json describes it, oldest first. [] without."""
        return earlier_starts.of(self.earlier, self.report, self.status, self.training, lives=self.alive.cluster)

    @property
    def attempts(self) -> list[dict]:
        """Of the gang in all its starts, those that have ended, as report.json describes them."""
        return [attempt for start in self.gang_starts for attempt in start['attempts']]

    @property
    def last_step(self) -> int | None:
        told = self.training.get('step')
        return told if type(told) is int else self.train.last_step
