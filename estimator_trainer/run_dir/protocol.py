"""What a task and whoever started it tell each other: files and environment.

A supervisor, ours or another's, sets the environment variables below if it wants what they give. A
task tells back by its exit code (`exit_codes`), by `model_dir/training.json` and by its error file.

`training.json`, written by the chief at least every BEAT_SECS while it lives:

    state            one of the STATES below
    step, max_steps  global steps; step is the last one that was finished
    checkpoint_step  global step of the last checkpoint, null before the first
    examples_per_sec null before it is known
    why              of 'ended': max_steps, early_stopping, max_secs, end_of_data
    generation       of the gang, as in the environment; '' without
    beat             a counter: as long as it moves, the chief lives
    pid, time        of the writer; seconds since the epoch

The error file, written by a task that ends with anything but 0:

    task, code, step  'worker:1', the exit code, the last finished step or null
    message           one line, the last one that the task prints
    peer              'worker:0' if that one is lost, else null
    follows           whether it stopped because another task was told to
    traceback         its last lines, or []
    time              seconds since the epoch
"""

import contextlib
import glob
import json
import os

from estimator_trainer.run_dir import files

ERROR_FILE = 'ESTIMATOR_TRAINER_ERROR_FILE'  # path of this task's error file
GENERATION = 'ESTIMATOR_TRAINER_GENERATION'  # one id for all tasks of one gang
STARTED = 'ESTIMATOR_TRAINER_STARTED'  # when the run was first started, seconds since the epoch
ISOLATED = 'ESTIMATOR_TRAINER_ISOLATED'  # '1': in a network namespace that has only loopback
WORKERS = 'ESTIMATOR_TRAINER_WORKERS'  # chief and workers with which the run was started; there may be fewer now
VARIABLES = (ERROR_FILE, GENERATION, STARTED, ISOLATED, WORKERS)

TRAINING_FILE = 'training.json'
BEAT_SECS = 2

STARTING = 'starting'  # looking for the others, loading data, building the graph
TRAINING = 'training'
EVALUATING = 'evaluating'  # after the last step, where there is no evaluator
ENDED = 'ended'  # nothing is left to train
STOPPED = 'stopped'  # by a signal; the same command resumes
STATES = (STARTING, TRAINING, EVALUATING, ENDED, STOPPED)


def write_json(path: str, value) -> None:
    """Writes a JSON file whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    temporary = f'{path}.{os.getpid()}.tmp'
    try:
        with files.create(temporary) as file:
            file.write(indented(value) + '\n')
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def remove_unfinished(path: str) -> None:
    """Removes what processes that were killed within `write_json` have left. Only the file's owner may."""
    for left in glob.glob(f'{glob.escape(path)}.*.tmp'):
        with contextlib.suppress(OSError):
            os.unlink(left)


def indented(value, margin: str = '') -> str:
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


def read_json(path: str) -> dict:
    """The object in a JSON file; {} if it is not there, or is none."""
    try:
        with open(path, encoding='utf-8') as file:
            value = json.load(file)
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
