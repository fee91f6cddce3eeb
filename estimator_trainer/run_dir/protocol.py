"""What a task and whoever started it tell each other: files and environment.

A supervisor, ours or another's, sets the environment variables below if it wants what they give. A
task tells back by its exit code (`exit_codes`), by `model_dir/training.json` (`training_file`) and by its error file.

The error file, written by a task that ends with anything but 0:

    task, code, step  'worker:1', the exit code, the last finished step or null
    message           one line, the last one that the task prints
    peer              'worker:0' if that one is lost, else null
    follows           whether it stopped because another task was told to
    traceback         its last lines, or []
    time              seconds since the epoch
"""

import contextlib
import json
import os
import re
import signal
from collections.abc import Mapping
from typing import Any

from estimator_trainer.run_dir import files, removal

ERROR_FILE = 'ESTIMATOR_TRAINER_ERROR_FILE'  # path of this task's error file
GENERATION = 'ESTIMATOR_TRAINER_GENERATION'  # one id for all tasks of one gang
STARTED = 'ESTIMATOR_TRAINER_STARTED'  # when the run was first started, seconds since the epoch
ISOLATED = 'ESTIMATOR_TRAINER_ISOLATED'  # '1': in a network namespace that has only loopback
WORKERS = 'ESTIMATOR_TRAINER_WORKERS'  # chief and workers with which the run was started; there may be fewer now
STORE = 'ESTIMATOR_TRAINER_STORE'  # JSON: {folder, flags, is_copy}, of a run in a store; see `given_flags`
RUN_KEY_FILE = 'ESTIMATOR_TRAINER_RUN_KEY_FILE'  # path of the run's key, if the tasks share no folder for it
QUICK_CHECK = 'ESTIMATOR_TRAINER_QUICK_CHECK'  # '1': a --dry_run that does not load TensorFlow
VARIABLES = (ERROR_FILE, GENERATION, STARTED, ISOLATED, WORKERS, RUN_KEY_FILE, QUICK_CHECK)

PROFILE_SIGNAL = signal.SIGUSR2  # to a task: it profiles its next steps; to a supervisor, which passes it on


def write_json(path: str, value: Any, durable: bool = False) -> None:
    """Writes a JSON file whole or not at all.

    Args:
        durable: it is on the disk before it has its name, so that it is whole if the machine loses its power.

    Raises:
        OSError: it cannot be written.
    """
    with files.replacing(path, durable=durable) as temporary, files.create(temporary) as file:
        file.write(indented(value) + '\n')


def given_flags(model_dir: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """Flags as the user gave them, for a run in a store: it works in a folder that it was given other flags for."""
    return _of_store(model_dir, environ).get('flags') or {}


def copied_url(model_dir: str, environ: Mapping[str, str]) -> str | None:
    """The store of which a task's model_dir is a copy; None: the task's model_dir is the run itself."""
    entry = _of_store(model_dir, environ)
    return given_flags(model_dir, environ).get('model_dir') if entry.get('is_copy') else None


def path_for_user(path: str, environ: Mapping[str, str]) -> str:
    """A path in a model_dir as the user knows it: of a run in a store, below its URL."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        entry = json.loads(environ.get(STORE) or '{}')
        if os.path.join(path, '').startswith(os.path.join(entry['folder'], '')):
            return f'{entry["flags"]["model_dir"]}{path[len(entry["folder"]) :]}'
    return path


def _of_store(model_dir: str, environ: Mapping[str, str]) -> dict[str, Any]:
    try:
        entry = json.loads(environ.get(STORE) or '{}')
        return entry if entry['folder'] == model_dir else {}
    except (ValueError, KeyError):
        return {}


def remove_unfinished(path: str) -> None:
    """Removes what processes that were killed within `write_json` have left. Only the file's owner may."""
    folder, name = os.path.split(path)
    removal.files_in(folder or os.curdir, removal.Named(f'{re.escape(name)}\\.\\d+\\.tmp'))


def indented(value: Any, margin: str = '') -> str:
    """What json.dumps gives with indent=2 and sort_keys=True. That one leaves reference cycles behind at
    each call; status files are written every second, and a job may have turned the garbage collector off.
    """
    inner = margin + '  '
    if isinstance(value, dict) and value:
        parts = [f'{inner}{json.dumps(str(key))}: {indented(value[key], inner)}' for key in sorted(value)]
        return '{\n' + ',\n'.join(parts) + f'\n{margin}}}'
    if isinstance(value, (list, tuple)) and value:
        return '[\n' + ',\n'.join(inner + indented(part, inner) for part in value) + f'\n{margin}]'
    return json.dumps(value)


def real(value: Any) -> float | None:
    """A value of a JSON file, if it is a number; None otherwise."""
    return float(value) if type(value) in (int, float) else None


def whole(value: Any) -> int | None:
    """A value of a JSON file, if it is a whole number; None otherwise."""
    return value if type(value) is int else None


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects in a value of a JSON file, if it is a list; [] otherwise."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def read_json(path: str) -> dict[str, Any]:
    """The object in a JSON file; {} if it is not there, or is none."""
    try:
        return read_object(path)
    except (OSError, ValueError):
        return {}


def read_object(path: str) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        ValueError: it is none; the text is a part of a sentence about the file.
        OSError: it cannot be read.
    """
    with open(path, encoding='utf-8') as file:
        try:
            value = json.load(file)
        except (ValueError, RecursionError) as error:
            raise ValueError(f'it is no JSON ({error})') from error
    if not isinstance(value, dict):
        raise ValueError('it holds no object')
    return value
