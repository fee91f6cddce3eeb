"""A run as its page shows it: what `RunFolder` reads, and its curves and variables."""

import collections
import functools
import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import events, file_names, metrics_log, protocol, run_starts, training_file
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.run_dir.run_verdict import LOST, Verdict
from estimator_trainer.tools.inspection import roles, variables
from estimator_trainer.tools.inspection.variables import Variable
from estimator_trainer.tools.report.curves import Log, Stretches

_SIGNS = (file_names.CONFIG, file_names.TRAINING, file_names.METRICS, file_names.STATUS, file_names.REPORT)
_MORE_SIGNS = (file_names.POINTER, file_names.GRAPH, 'eval')
_READ = ('config', 'training', 'status', 'report', 'best', 'stop', 'wrong_answers', 'train', 'evaluations', 'table')
_LARGEST_EVENTS_BYTES = 1 << 30  # of all files of one folder
_MOST_STARTS = 300
_AHEAD = 2 * training_file.BEAT_SECS  # seconds that training.json may be behind metrics.jsonl
_EVENTS_AT_ONCE = 20_000
_TAGS = {'loss_1': 'loss'}  # an Estimator of TensorFlow 1 writes the loss under either name


class Weight(NamedTuple):
    """A variable of the model, with what the optimizer stores for it."""

    variable: Variable
    slots: tuple[str, ...]
    slot_bytes: int


class CheckpointVariables(NamedTuple):
    """The variables of one checkpoint. `bytes` are of all of them, weights or not."""

    checkpoint: str
    weights: tuple[Weight, ...]
    bytes: int

    @property
    def parameters(self) -> int:
        """The elements of the weights."""
        return sum(int(np.prod(weight.variable.shape, dtype=np.int64)) for weight in self.weights)


class RunFiles(RunFolder):
    """One model_dir. What is missing or damaged is empty, and `problems` say so.

    Args:
        model_dir: a path of this machine; `~` is the home folder.
        name: a short name, unlike those of other runs on the same page; '' for the name of the folder.
        now: when it is read, seconds since the epoch; None: by the clock.
        address: how the page names the folder: by its path, or by the URL of which it is a copy; '' for the path.

    Attributes:
        name, address: as given.
    """

    def __init__(self, model_dir: str, name: str = '', now: float | None = None, address: str = ''):
        super().__init__(os.path.expanduser(model_dir), now)
        self.address = address or self.path
        self.name = name or os.path.basename(self.path) or self.path

    @functools.cached_property
    def event_starts(self) -> list[float]:
        """When processes began to train, seconds since the epoch, as the names of their files of events say."""
        return sorted({float(began) for path in self.events() if (began := events.began(path))})[-_MOST_STARTS:]

    @functools.cached_property
    def train(self) -> Log:
        """metrics.jsonl, or the events of a run without it."""
        begins = [began for attempt in self.attempts for began, _ in run_starts.chief_lives(attempt)]
        now = protocol.real(self.status.get('attempt_started'))
        begins += [start['started'] for start in self.starts if start.get(run_starts.ALONE)]
        starts = {*begins, *self.event_starts, *([] if now is None else [now])}
        return self._log('', self.events() or self.events('train'), sorted(starts))

    @functools.cached_property
    def evaluations(self) -> dict[str, Log]:
        """Folder -> its metrics.jsonl, or its events; without the folders in which nothing was measured."""
        logs = {folder: self._log(folder, self.events(folder)) for folder in self.evaluation_folders}
        return {folder: log for folder, log in logs.items() if len(log)}

    @functools.cached_property
    def table(self) -> CheckpointVariables | None:
        """The variables of the newest checkpoint that can be read."""
        for checkpoint in reversed(self.checkpoints):
            folder = self.file(file_names.DAMAGED) if checkpoint.is_damaged else self.path
            try:
                return read_variables(os.path.join(folder, checkpoint.name))
            except (ValueError, OSError, IndexError) as error:
                self.problems.append(f'{checkpoint.name}.index cannot be read: {error}.')
        return None

    @property
    def main_evaluations(self) -> Log | None:
        """The evaluations that the page shows first: those in eval/, else those with the most lines."""
        return self.evaluations.get('eval') or max(self.evaluations.values(), key=len, default=None)

    @property
    def last_step(self) -> int | None:
        """The last global step that is known to be finished, by the newest of training.json, metrics.jsonl and
        the checkpoint that a run which was killed goes on from."""
        step = self._last_step_of_files
        named = self.named_step if self.judged.kind == LOST else None
        return step if named is None else max(named, step or 0)

    @property
    def _last_step_of_files(self) -> int | None:
        step, written = protocol.whole(self.training.get('step')), protocol.real(self.training.get('time')) or 0.0
        reported = self.train.last_step
        if step is None or (reported is not None and reported > step and (self.train.ended or 0.0) >= written - _AHEAD):
            return reported
        return step

    @property
    def judged(self) -> Verdict:
        """How the run is, at the time of the page."""
        return self.verdict(self.read_at)

    def _log(self, folder: str, paths: list[str], starts: Sequence[float] = ()) -> Log:
        log, path = Log(stretches=Stretches(starts)), os.path.join(folder, file_names.METRICS)
        try:
            for block in metrics_log.blocks(self.file(path)):
                log.add(block.lines, block.damaged + block.is_cut)
            if log.damaged:
                self.problems.append(f'{path}: {log.damaged:,} of its lines cannot be read; they are left out.')
            size = sum(map(os.path.getsize, paths))
            if not len(log) and size > _LARGEST_EVENTS_BYTES:
                place = folder or 'the folder'
                self.problems.append(f'The files of events in {place} are not read: they have {size >> 20:,} MiB.')
            elif not len(log):
                self._add_events(log, folder, paths)
        except OSError as error:
            self.problems.append(f'{error.filename or path} cannot be read: {error.strerror}.')
        return log

    def _add_events(self, log: Log, folder: str, paths: list[str]) -> None:
        lines = []
        for path in sorted(paths, key=lambda path: (events.began(path), path)):
            try:
                for event in events.read(path):
                    line = _line(event)
                    if lines and _are_of_one_step(lines[-1], line):
                        lines[-1] = {**line, **lines[-1]}
                        continue
                    if len(lines) >= _EVENTS_AT_ONCE:
                        log.add(lines)
                        lines = []
                    lines.append(line)
            except ValueError as error:
                self.problems.append(f'{os.path.join(folder, os.path.basename(path))}: {error}.')
        log.add(lines)


def _are_of_one_step(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two neighbouring events tell of one step: each hook writes its own. One with the same tags is of a step
    that was trained again."""
    return one['step'] == other['step'] and not (one.keys() & other.keys()) - {'step', 'time'}


def _line(event: events.Scalars) -> dict[str, Any]:
    """An event as a line of metrics.jsonl. What is not finite is NaN."""
    values = {_TAGS.get(tag, tag): value if math.isfinite(value) else math.nan for tag, value in event.values.items()}
    return {**values, 'step': event.step, 'time': event.time}


def read(model_dir: str, name: str = '', now: float | None = None, address: str = '') -> RunFiles:
    """Reads all of a run. The arguments are those of RunFiles.

    Raises:
        UsageError: there is no such folder, or nothing of a run in it.
        OSError: the folder cannot be listed.
    """
    run = RunFiles(model_dir, name, now, address)
    if not os.path.isdir(run.path):
        raise UsageError(f'{model_dir}: there is no such folder; name the model_dir of a run.')
    has_signs = not {*_SIGNS, *_MORE_SIGNS}.isdisjoint(run.entries)
    if not (has_signs or run.events() or run.has_checkpoint):
        raise UsageError(f'{model_dir}: holds no run: none of {", ".join(_SIGNS[:4])}, no checkpoint and no events.')
    for attribute in _READ:
        getattr(run, attribute)  # so that `problems` names every file that cannot be read
    return run


def read_variables(prefix: str) -> CheckpointVariables:
    """The variables of a checkpoint of format V2.

    Raises:
        ValueError: its index is damaged.
        OSError: it cannot be read.
    """
    every = variables.read(prefix)
    found = roles.roles(every)
    slots: dict[str, list[roles.Role]] = collections.defaultdict(list)
    for role in found:
        if role.weight and role.role in (roles.SLOT, roles.SHADOW):
            slots[role.weight].append(role)
    weights = []
    for variable in (role.variable for role in found if role.role in (roles.WEIGHT, roles.MOVING)):
        its = slots[variable.name]
        names = tuple(dict.fromkeys(role.slot or 'ExponentialMovingAverage' for role in its))
        weights.append(Weight(variable, names, sum(role.variable.bytes for role in its)))
    return CheckpointVariables(os.path.basename(prefix), tuple(weights), sum(variable.bytes for variable in every))
