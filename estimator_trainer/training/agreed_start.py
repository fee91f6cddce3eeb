"""All synchronous tasks start from one step and one set of weights, in one folder, or none of them starts.

1. The chief verifies its checkpoints, and writes into the model_dir from which one this start goes on, under a
   name that no other start has (`.start.json`). It tells the others the same over the network.
2. Every other task looks for that file and that checkpoint in its own model_dir. The listing of a network file
   system may lag, so it looks for --join_timeout_secs.
3. Every task says what it has found. The chief tells all of them the outcome. Where one task has not found the
   chief's files, every task refuses, and names it.
"""

import contextlib
import json
import os
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from estimator_trainer import exit_codes
from estimator_trainer.data.files import dataset
from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import checkpoints, file_errors, protocol
from estimator_trainer.training import coordination, files_of_chief
from estimator_trainer.training.plan import Plan

FILE = '.start.json'
_LOOK_SECS = 0.5
_ANSWER_SECS = 60  # for the slowest task, beyond the time it may look
_HEARD_SECS = 10  # for all to hear of a refusal before the first one leaves


class StartRefused(Exception):
    """The tasks do not start. `code`: the exit code of all of them."""

    def __init__(self, code: int, message: str):
        super().__init__(message)
        self.code = code


def announce(plan: Plan, files: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Writes into the model_dir, and tells the others, from where this start goes on. Of the chief, which has
    verified its checkpoints.

    Args:
        files: what the training files hold, as JSON; None where the job reads none.
    """
    model_dir = plan.config.model_dir
    prefix = checkpoints.latest(model_dir)
    start = {
        'start': uuid.uuid4().hex,
        'step': checkpoints.step_of(prefix) if prefix else 0,
        'checkpoint': os.path.basename(prefix) if prefix else None,
        'digest': checkpoints.digest(prefix) if prefix else None,
        'files': files,
        'replicas': plan.config.num_replicas,
    }
    protocol.write_json(os.path.join(model_dir, FILE), start)
    coordination.tell('start', json.dumps(start))
    return start


def agree(plan: Plan, files: Mapping[str, Any] | None = None) -> int:
    """Waits until the chief has announced its start, and compares it with what this task finds in its
    model_dir. Called by every synchronous task, in the same order.

    Args:
        files: as in `announce`, but what this task has found.

    Returns:
        The global step from which all tasks start.

    Raises:
        UsageError: the model_dir of a task is not the chief's.
        StartRefused: a task has other training files, or cannot read the chief's checkpoint, or the chief takes too
            long to verify it.
        tf.errors.OpError: a task was lost.
    """
    config = plan.config
    verify_secs = config.step_timeout_secs or coordination.UNBOUNDED_SECS
    try:
        coordination.wait_for_all('checkpoints', verify_secs)
    except tf.errors.DeadlineExceededError as error:
        raise StartRefused(
            exit_codes.STALLED,
            f'the chief has not verified its checkpoint within {verify_secs:g} s (--step_timeout_secs)',
        ) from error
    start = json.loads(coordination.hear('start'))
    code, problem = exit_codes.OK, ''
    if not plan.is_chief:
        code, problem = look(config.model_dir, start, config.join_timeout_secs)
        if not code and dataset.difference(start['files'] or {}, files or {}):
            code, problem = exit_codes.FILES_AWAY, files_of_chief.difference(files, start['files'])
        if not code and start['replicas'] != config.num_replicas:
            code = exit_codes.USAGE
            problem = (
                f'has {config.num_replicas} replica(s), and the chief {start["replicas"]}: give each --num_replicas=N'
            )
        coordination.tell(f'found/{plan.training_index}', json.dumps([code, problem]))
    coordination.wait_for_all('looked', config.join_timeout_secs + _ANSWER_SECS)
    if plan.is_chief:
        coordination.tell('outcome', json.dumps(_outcome(plan)))
    coordination.wait_for_all('outcome', _ANSWER_SECS)
    task, their_code, their_problem = json.loads(coordination.hear('outcome'))
    if their_code:
        _wait_until_heard()
        if not code:
            code, problem = their_code, their_problem
        else:
            task = str(plan.task)
        message = f'{task} {problem}'
        raise UsageError(message) if code == exit_codes.USAGE else StartRefused(code, message)
    return int(start['step'])


def look(
    model_dir: str,
    start: Mapping[str, Any],
    secs: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> tuple[int, str]:
    """Looks for what the chief has announced, for at most `secs`.

    Returns:
        (exit code, what is wrong); (0, '') once all of it is there.
    """
    deadline = clock() + secs
    while True:
        own = _look_once(model_dir, start)
        if not own[0] or clock() >= deadline:
            return own
        sleep(_LOOK_SECS)


def _look_once(model_dir: str, start: Mapping[str, Any]) -> tuple[int, str]:
    try:
        with contextlib.suppress(FileNotFoundError):
            os.listdir(model_dir)  # so that a network file system asks its server anew
        if protocol.read_json(os.path.join(model_dir, FILE)) != start:
            store = protocol.copied_url(model_dir, os.environ)
            if store:
                return exit_codes.FILES_AWAY, (
                    f'has not received from {store} what the chief has sent there (--join_timeout_secs): the store is '
                    'slow or away, or the chief has another --model_dir'
                )
            return exit_codes.USAGE, (
                f'does not find in --model_dir={model_dir} what the chief has written there: the folder is not '
                'shared. Name one on storage that every task sees at this path.'
            )
        if start['checkpoint'] and not _sees(model_dir, start):
            return exit_codes.FILES_AWAY, (
                f'does not see {start["checkpoint"]}, from which the chief goes on, as the chief sees it: the file '
                f'system of {model_dir} lags'
            )
    except OSError as error:
        return file_errors.exit_code(error.errno), (
            f'cannot read {error.filename} ({error.strerror}); {file_errors.cure(error.errno)}'
        )
    return exit_codes.OK, ''


def _sees(model_dir: str, start: Mapping[str, Any]) -> bool:
    """Whether the newest checkpoint is the chief's, with the chief's weights."""
    try:
        own = checkpoints.digest(os.path.join(model_dir, start['checkpoint']))
    except FileNotFoundError:
        return False
    named = checkpoints.latest(model_dir) or ''
    return own == start['digest'] and os.path.basename(named) == start['checkpoint']


def _outcome(plan: Plan) -> tuple[str, int, str]:
    """The name, exit code and problem of the first task that has found something wrong."""
    tasks = list(plan.cluster.training_tasks)
    for index, task in enumerate(tasks):
        if index != plan.training_index:
            code, problem = json.loads(coordination.hear(f'found/{index}'))
            if code:
                return str(task), code, problem
    return '', exit_codes.OK, ''


def _wait_until_heard() -> None:
    try:
        coordination.wait_for_all('refusal', _HEARD_SECS)
    except tf.errors.OpError:  # one has left already
        pass
