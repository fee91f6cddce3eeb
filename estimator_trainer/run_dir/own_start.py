"""What a trainer without a supervisor records of its own start in earlier_starts.json: when it began, how it ended.

A process that is killed records no end. The start after it completes the record, before it writes any other file.
"""

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from estimator_trainer.run_dir import file_names, protocol, run_starts
from estimator_trainer.run_dir.run_folder import RunFolder


class OwnStart:
    """The record of this start. Nothing is written before `begin`, and a full disk loses only the record.

    Args:
        model_dir: None: nothing is recorded, because there is a supervisor, or this task is not the chief.
        task: the name of this task, such as 'trainer'.
        began: when this process began, seconds since the epoch.
        clock: () -> seconds since the epoch.
    """

    def __init__(
        self, model_dir: str | None, task: str = '', began: float = 0.0, clock: Callable[[], float] = time.time
    ):
        self._model_dir, self._task, self._began, self._clock = model_dir, task, began, clock
        self._earlier: list[dict[str, Any]] = []
        self._entry: dict[str, Any] | None = None
        self._checkpoint: int | None = None

    def begin(self) -> None:
        """The model_dir is ours, and training.json is still that of the start before."""
        if self._entry is not None or self._model_dir is None:
            return
        run = RunFolder(self._model_dir)
        files = (run.earlier_starts, run.report, run.status, run.training)
        before = run_starts.starts(*files, False, False, run.last_metrics, run.named_step)
        self._earlier = run_starts.newest(before)[1 - run_starts.MOST :]
        number = before[-1]['start'] + 1 if before else 1
        self._entry = run_starts.begun(self._task, number, self._began, os.getpid(), self._checkpoint)
        self._write(self._entry)

    def resumes_at(self, step: int) -> None:
        """Training goes on from the checkpoint of this step; 0: there is none."""
        before, self._checkpoint = self._checkpoint, step or None
        if self._entry is not None and before != self._checkpoint:
            self._entry[run_starts.UNDER_WAY]['checkpoint_before'] = self._checkpoint
            self._write(self._entry)

    def ends(self, code: int, said: Mapping[str, Any], step: int | None, checkpoint: int | None) -> None:
        """This process ends.

        Args:
            code: its exit code.
            said: message and traceback; {} where all is done.
            step: the last one that was finished; None: none was.
            checkpoint: step of the last checkpoint.
        """
        if self._entry is None or self._model_dir is None or self._entry[run_starts.UNDER_WAY]['pid'] != os.getpid():
            return  # nothing is recorded, or this is a forked child
        training = RunFolder(self._model_dir).training
        own = training if training.get('pid') == os.getpid() else {}
        self._write(run_starts.ended(self._entry, self._clock(), code, said, step, checkpoint, own))

    def _write(self, entry: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            path = os.path.join(self._model_dir or '', file_names.EARLIER_STARTS)
            protocol.write_json(path, {run_starts.KEY: [*self._earlier, entry]}, durable=True)
