"""What an engine's verdicts have decided about a job so far: in a folder that all nodes share, or in the store."""

import json
import pathlib
from collections.abc import Mapping
from typing import Protocol

from estimator_trainer.run_dir import protocol
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.storage import names
from estimator_trainer.storage.store import Store, Version


class Record(Protocol):
    def read(self) -> Mapping:
        """{} where nothing was decided yet."""

    def write(self, value: Mapping) -> None:
        """Raises OSError."""

    def saved_step(self) -> int:
        """Of the checkpoint from which the next attempt resumes."""


class InFolder:
    """In `failures.json` of a folder, for a model_dir that all nodes share."""

    def __init__(self, folder: pathlib.Path, model_dir: str):
        self._path, self._model_dir = str(folder / 'failures.json'), model_dir

    def read(self) -> Mapping:
        return protocol.read_json(self._path)

    def write(self, value: Mapping) -> None:
        protocol.write_json(self._path, value)

    def saved_step(self) -> int:
        return RunFolder(self._model_dir).named_step or 0


class InStore:
    """In an object of the store, which is no part of the run. Each method may raise StoreError.

    Args:
        job: 'slurm-17'.
    """

    def __init__(self, job: str, store: Store):
        self._name, self._store = names.record_of(job), store
        self._version: Version | None = None

    def read(self) -> Mapping:
        found = self._store.read(self._name)
        if found is None:
            return {}
        content, self._version = found
        try:
            value = json.loads(content)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}

    def write(self, value: Mapping) -> None:
        self._version = self._store.write(self._name, json.dumps(value).encode(), self._version)

    def saved_step(self) -> int:
        found = self._store.read(names.POINTER)
        named = found and names.named_by(found[0])
        return max(names.step_of(named), 0) if named else 0
