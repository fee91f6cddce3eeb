"""Which locks the processes of a run in a store hold, by its files: the store does not show locks."""

from collections.abc import Mapping

from estimator_trainer.run_dir import file_names, status_file
from estimator_trainer.run_dir.run_folder import RunFolder

_SAME_SECS = 60  # files of one run may be so far apart


def held(folder: str) -> list[str]:
    """By the files of the run: the trainer's lock, and that of a supervisor, unless its file is of an earlier run."""
    run = RunFolder(folder)
    is_new = _time(run.status) >= _time(run.training) - _SAME_SECS
    supervised = run.status and run.status.get('state') not in status_file.ENDS and is_new
    return [file_names.TRAINER_LOCK, *([file_names.SUPERVISOR_LOCK] if supervised else [])]


def _time(entry: Mapping) -> float:
    return float(entry['time']) if type(entry.get('time')) in (int, float) else 0.0
