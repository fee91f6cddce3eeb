"""Which locks the processes of a run in a store hold, by its files: the store does not show locks."""

import os
from collections.abc import Mapping

from estimator_trainer.run_dir import ownership, protocol, status_file, training_file

_SAME_SECS = 60  # files of one run may be so far apart
_ENDED = (status_file.DONE, status_file.STOPPED, status_file.FAILED)


def held(folder: str) -> list[str]:
    """By the files of the run: the trainer's lock, and that of a supervisor, unless its file is of an earlier run."""
    told, training = (protocol.read_json(os.path.join(folder, name)) for name in (status_file.NAME, training_file.NAME))
    supervised = told and told.get('state') not in _ENDED and _time(told) >= _time(training) - _SAME_SECS
    return [ownership.TRAINER_LOCK, *([ownership.SUPERVISOR_LOCK] if supervised else [])]


def _time(entry: Mapping) -> float:
    return float(entry['time']) if type(entry.get('time')) in (int, float) else 0.0
