"""The one reader of a model_dir: `RunFolder`. Imports no TensorFlow, and changes nothing.

    run = RunFolder('runs/mnist')
    run.training.get('step'), [checkpoint.step for checkpoint in run.checkpoints], run.verdict(time.time()).text

The folder may be any: that of a run which trains now, of another Estimator program, a copy of a run in a store, or
none. What is not there is empty, and so is what cannot be read; `problems` says of which files that is.
"""

import contextlib
import functools
import glob
import os
import time
from collections.abc import Iterator
from typing import Any

from estimator_trainer.run_dir import (
    events,
    file_names,
    listed_files,
    locks,
    metrics_log,
    protocol,
    run_starts,
    run_verdict,
)
from estimator_trainer.run_dir.listed_files import Checkpoint, Export, Log
from estimator_trainer.run_dir.run_verdict import Holders, Verdict
from estimator_trainer.run_dir.training_file import TrainingStatus


class RunFolder:
    """What the files of one model_dir say.

    Nothing is read before it is asked for. Each attribute reads its file once and keeps what it says, so that what one
    RunFolder says belongs together; a new RunFolder sees what was written since.

    Args:
        model_dir: a path of this machine. The folder need not be there.
        now: when it is read, seconds since the epoch; None: by the clock.

    Attributes:
        path: the absolute path.
        read_at: `now`.
        problems: a sentence for each file that is there and could not be read, of those that were asked for so far.
    """

    def __init__(self, model_dir: str, now: float | None = None):
        self.path = os.path.abspath(model_dir)
        self.read_at = time.time() if now is None else now
        self.problems: list[str] = []

    def file(self, name: str) -> str:
        """The path of a file, by its name in the model_dir."""
        return os.path.join(self.path, name)

    @functools.cached_property
    def entries(self) -> list[str]:
        """The files and folders in the folder, sorted; [] if there is no such folder.

        Raises:
            OSError: the folder cannot be listed.
        """
        try:
            return sorted(os.listdir(self.path))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def object(self, name: str) -> dict[str, Any]:
        """The object in a JSON file; {} if there is none, or it cannot be read."""
        try:
            return protocol.read_object(self.file(name))
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            self.problems.append(f'{name} cannot be read: {error.strerror}.')
        except ValueError as error:
            self.problems.append(f'{name} is damaged: {error}.')
        return {}

    @functools.cached_property
    def config(self) -> dict[str, Any]:
        """config.json: what the run is."""
        return self.object(file_names.CONFIG)

    @property
    def flags(self) -> dict[str, Any]:
        """The flags of the run, by their names without dashes; {} where config.json has none."""
        return _object_in(self.config, 'flags')

    @property
    def params(self) -> dict[str, Any]:
        """The params of the job; {} where config.json has none."""
        return _object_in(self.config, 'params')

    @functools.cached_property
    def training(self) -> dict[str, Any]:
        """training.json: how training goes, as the chief says it (`training_file`)."""
        return self.object(file_names.TRAINING)

    @property
    def training_status(self) -> TrainingStatus | None:
        """training.json with its types; None if it is not there, or is no such file."""
        return TrainingStatus.parse(self.training)

    @functools.cached_property
    def status(self) -> dict[str, Any]:
        """status.json: how the run goes, as its supervisor says it (`status_file`)."""
        return self.object(file_names.STATUS)

    @functools.cached_property
    def report(self) -> dict[str, Any]:
        """report.json: what happened in a run of a supervisor that has ended."""
        return self.object(file_names.REPORT)

    @functools.cached_property
    def stop(self) -> dict[str, Any]:
        """eval/stop.json: the decision to stop early."""
        return self.object(file_names.STOP)

    @functools.cached_property
    def last_evaluation(self) -> dict[str, Any]:
        """eval/last.json: the checkpoint that was evaluated last, and what of that is done."""
        return self.object(file_names.LAST_EVALUATION)

    @functools.cached_property
    def wrong_answers(self) -> dict[str, Any]:
        """eval/wrong.json: examples that the last checkpoint takes for another class."""
        return self.object(file_names.WRONG_ANSWERS)

    @functools.cached_property
    def best(self) -> dict[str, Any]:
        """best.json: the evaluation that export/best is of."""
        return self.object(file_names.BEST_EXPORT)

    @functools.cached_property
    def earlier_starts(self) -> dict[str, Any]:
        """earlier_starts.json: the starts of a trainer alone; those of a supervisor before its last one, while there
        is no report.json."""
        return self.object(file_names.EARLIER_STARTS)

    @functools.cached_property
    def starts(self) -> list[dict[str, Any]]:
        """The starts of the run, oldest first, as report.json describes them; [] where nothing has recorded one."""
        files = (self.earlier_starts, self.report, self.status, self.training)
        alive = self.verdict(self.read_at).kind == run_verdict.ALIVE
        return run_starts.starts(*files, self.holders.cluster, alive, self.last_metrics, self.named_step)

    @property
    def attempts(self) -> list[dict[str, Any]]:
        """The attempts of the gang in all its starts that have ended, as report.json describes them."""
        return [attempt for start in self.starts for attempt in start['attempts']]

    @functools.cached_property
    def holders(self) -> Holders:
        """Which processes hold a lock of the folder now."""
        trainer = self.file(file_names.TRAINER_LOCK)
        return Holders(
            trainer=locks.is_held(trainer),
            cluster=locks.is_held(self.file(file_names.SUPERVISOR_LOCK)),
            evaluator=locks.is_held(self.file(file_names.EVALUATOR_LOCK)),
            trainer_has_left=locks.was_left_here(trainer),
        )

    def verdict(self, now: float) -> Verdict:
        """Whether the run lives, is done, has failed or is lost. `now`: seconds since the epoch."""
        return run_verdict.judge(self.training, self.status, self.report, self.holders, now, self.stop)

    @functools.cached_property
    def pointer(self) -> file_names.Pointer:
        """What the file `checkpoint` says; it names nothing if it is not there, or cannot be read."""
        try:
            with open(self.file(file_names.POINTER), encoding='utf-8', errors='replace') as file:
                return file_names.pointer(file.read(1 << 20))
        except OSError:
            return file_names.Pointer('', (), False)

    @property
    def named_step(self) -> int | None:
        """The global step of the checkpoint that the file `checkpoint` names, from which a run resumes; None: it names
        none. `checkpoint_step` of training.json may be seconds behind."""
        return file_names.step_of(self.pointer.path)

    @property
    def named_time(self) -> float | None:
        """When the checkpoint that the file `checkpoint` names was written, seconds since the epoch; None: there is
        none."""
        with contextlib.suppress(OSError):
            return os.stat(self.file(f'{self.pointer.path}.index')).st_mtime if self.pointer.path else None
        return None

    @property
    def has_checkpoint(self) -> bool:
        """Whether the folder holds a checkpoint or names one, which a remote file system may show first. True if the
        folder cannot be listed: nobody knows."""
        try:
            return bool(self.pointer.path) or any(name.endswith('.index') for name in self.entries)
        except OSError:
            return True

    @property
    def steps(self) -> set[int]:
        """The global steps in the names of the checkpoints; an empty set if the folder cannot be listed."""
        with contextlib.suppress(OSError):
            indexed = (name.removesuffix('.index') for name in self.entries if name.endswith('.index'))
            return {step for step in map(file_names.step_of, indexed) if step is not None}
        return set()

    @functools.cached_property
    def checkpoints(self) -> list[Checkpoint]:
        """The checkpoints, by step; after them those in damaged/. Only their names and sizes are looked at.

        Raises:
            OSError: the folder cannot be listed.
        """
        checkpoints = listed_files.checkpoints(self.path, self.entries)
        with contextlib.suppress(OSError):
            aside = self.file(file_names.DAMAGED)
            checkpoints += listed_files.checkpoints(aside, os.listdir(aside), is_damaged=True)
        return checkpoints

    @functools.cached_property
    def exports(self) -> list[Export]:
        """The SavedModels in export/, by their kinds, and the oldest of a kind first."""
        return listed_files.exports(self.path)

    @functools.cached_property
    def checkpoint_files(self) -> dict[str, list[str]]:
        """The names of the files of each checkpoint of either format, by step: of those without an index too.

        Raises:
            OSError: the folder cannot be listed.
        """
        listed = {file_names.without_shards(path).rpartition('/')[2] for path in self.pointer.listed}
        return listed_files.checkpoint_files(self.path, self.entries, listed)

    @functools.cached_property
    def saved_models(self) -> list[str]:
        """The SavedModels in the folder and up to three folders below it, relative to it."""
        return listed_files.saved_models(self.path)

    @functools.cached_property
    def logs(self) -> list[Log]:
        """The files of logs/ that are not empty, in the order of their names and numbers."""
        return listed_files.logs(self.path)

    def metrics(self, since: int = 0) -> Iterator[metrics_log.Block]:
        """The lines of metrics.jsonl behind a position, in blocks. Raises OSError if the file cannot be read."""
        return metrics_log.blocks(self.file(file_names.METRICS), since)

    @functools.cached_property
    def last_metrics(self) -> list[dict[str, Any]]:
        """The last lines of metrics.jsonl, oldest first: those in its last 64 KiB, or a longer one."""
        return metrics_log.tail(self.file(file_names.METRICS))

    def reported_step(self, since: float) -> int | None:
        """The last step in metrics.jsonl, of the lines since a time in seconds since the epoch; None: there is none."""
        return metrics_log.last_step(self.last_metrics, since)

    @functools.cached_property
    def newest_metrics(self) -> dict[str, Any]:
        """The last line of metrics.jsonl; {} without one."""
        return metrics_log.last(self.file(file_names.METRICS))

    @functools.cached_property
    def evaluation_lines(self) -> list[dict[str, Any]]:
        """All lines of eval/metrics.jsonl, oldest first. Raises OSError if the file cannot be read."""
        return metrics_log.MetricsLog(self.file(file_names.EVALUATIONS)).read()

    @functools.cached_property
    def newest_evaluation(self) -> dict[str, Any]:
        """The last line of eval/metrics.jsonl; {} without one."""
        return metrics_log.last(self.file(file_names.EVALUATIONS))

    @functools.cached_property
    def evaluation_folders(self) -> list[str]:
        """The folders with evaluations: eval, eval_NAME, and those in keras/ of a run of model_to_estimator."""
        paths = [path for path in (*self._glob('eval*'), *self._glob('keras/eval*')) if os.path.isdir(path)]
        return sorted(os.path.relpath(path, self.path) for path in paths)

    def measured(self, folder: str, most_bytes: int) -> tuple[dict[int, dict[str, float]], list[str]]:
        """The metrics by step in a folder with evaluations, and a sentence for each file that is not read in full:
        because it cannot be read further, or has more bytes than these. Raises OSError if one cannot be read at all."""
        return events.measured(self.path, folder, self.events(folder), most_bytes)

    def events(self, folder: str = '') -> list[str]:
        """The paths of the files of events in a folder of the model_dir, by their names."""
        return sorted(self._glob(os.path.join(glob.escape(folder), f'{file_names.EVENTS}*')))

    def _glob(self, pattern: str) -> list[str]:
        return sorted(glob.glob(os.path.join(glob.escape(self.path), pattern)))


def _object_in(value: dict[str, Any], name: str) -> dict[str, Any]:
    return value[name] if isinstance(value.get(name), dict) else {}
