"""What follows the end of a gang that an engine has started: the same decision as the local supervisor's.

    python -m estimator_trainer.submit.verdict --model_dir=DIR --folder=DIR --attempt=N \\
        --roles=worker:2,evaluator:1 --max_restarts=3 [--job=NAME] CODE

CODE is how the engine says that the gang ended. It tells little: of several tasks an engine reports the
highest code, or the first, while the task that failed first may have ended with another. So each task leaves
its error file (`protocol.ERROR_FILE`) in FOLDER/N, N being the attempt, and what has been decided before lies
in FOLDER, or in the store of the model_dir under the name of the job. A task that is killed leaves none; then what
the others say of it has to do.

Exit code: 0 where CODE is 0, AGAIN where all tasks should be started again, else that of the cause.
"""

import argparse
import dataclasses
import json
import math
import os
import pathlib
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import tf_config
from estimator_trainer import exit_codes
from estimator_trainer.config import urls
from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import protocol
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.storage import connection, names, store
from estimator_trainer.supervisor.policy import causes, restarts
from estimator_trainer.supervisor.reports import wording
from tf_config import inherited

AGAIN = 75  # EX_TEMPFAIL of sysexits.h
ERROR_FILES = '*.error.json'


class Record(Protocol):
    def read(self) -> Mapping:
        """What was decided; {} if nothing was."""

    def write(self, value: Mapping) -> None:
        """Raises OSError."""

    def saved_step(self) -> int:
        """The step of the checkpoint from which the next attempt resumes; 0: there is none."""


class InFolder:
    """Keeps the record in `failures.json` of a folder, for a model_dir that all nodes share."""

    def __init__(self, folder: pathlib.Path, model_dir: str):
        self._path, self._model_dir = str(folder / 'failures.json'), model_dir

    def read(self) -> Mapping:
        return protocol.read_json(self._path)

    def write(self, value: Mapping) -> None:
        protocol.write_json(self._path, value)

    def saved_step(self) -> int:
        return RunFolder(self._model_dir).named_step or 0


class InStore:
    """Keeps the record in an object of the store, which is no part of the run. Each method may raise StoreError.

    Args:
        job: 'slurm-17'.
    """

    def __init__(self, job: str, opened: store.Store):
        self._name, self._store = names.record_of(job), opened
        self._version: store.Version | None = None

    def read(self) -> Mapping:
        stored = self._store.read(self._name)
        if stored is None:
            return {}
        content, self._version = stored
        try:
            value = json.loads(content)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}

    def write(self, value: Mapping) -> None:
        self._version = self._store.write(self._name, json.dumps(value).encode(), self._version)

    def saved_step(self) -> int:
        pointer = self._store.read(names.POINTER)
        named = pointer and names.named_by(pointer[0])
        return max(names.step_of(named), 0) if named else 0


def rules(max_restarts: int) -> restarts.Rules:
    """The rules of restarts by an engine, which takes its own time to start a job again."""
    return restarts.Rules(max_restarts, window_secs=math.inf, backoff_secs=0)


def ends(folder: pathlib.Path) -> list[causes.TaskEnd]:
    """How tasks ended, by the error files in a folder. A node may have reported the same task twice."""
    by_task = {}
    for path in sorted(folder.glob(ERROR_FILES)):
        value = protocol.read_json(str(path))
        name, code = value.get('task'), value.get('code')
        if isinstance(name, str) and type(code) is int and code:
            by_task[name] = causes.TaskEnd(name, code, secs=0, error=causes.TaskError.from_record(value))
    return [*by_task.values()]


def cause(code: int, ended: list[causes.TaskEnd]) -> causes.Cause:
    """Why a gang failed that ended with `code`."""
    return causes.cause_of(ended, ended) if ended else causes.Cause('', code)


def decide(
    code: int, notes: Record, folder: pathlib.Path, attempt: int, max_restarts: int, now: float
) -> tuple[restarts.Decision, causes.Cause, int]:
    """Decides what follows an attempt, numbered from 0, and records it. (Decision, Cause, number of error files)"""
    known = notes.read()
    earlier = known.get('failures', []) if attempt else []  # of another job
    # Slurm restarts all tasks, so each failure is one of the gang, whose checkpoints are what it has achieved.
    history = restarts.History(rules(max_restarts), random.Random(0), lambda name: False, earlier)
    ended = ends(folder / str(attempt))
    why = cause(code, ended)
    decision = history.decide(why, now, notes.saved_step())
    notes.write({'failures': [dataclasses.asdict(failure) for failure in history.failures]})
    return decision, why, len(ended)


def sentence(decision: restarts.Decision, why: causes.Cause, max_restarts: int, silent: int, tasks: int) -> str:
    """The decision in one line. `silent`: how many of `tasks` left no error file."""
    what = wording.brief(why)
    if silent:
        what += f'; {silent} of {tasks} tasks left no word (killed, or done)'
    if decision.restart:
        return f'again, {decision.number} of {max_restarts} without a new checkpoint: {what}'
    return f'the end, {decision.reason.value}: {what}'


def _without_record(args: argparse.Namespace, problem: str) -> int:
    """The exit code if the store does not answer. Of the earlier decisions only the number is known then."""
    why = cause(args.code, ends(args.folder / str(args.attempt)))
    again = exit_codes.retryable(why.code) and args.attempt < args.max_restarts
    what = f'again, {args.attempt + 1} of {args.max_restarts}' if again else 'the end'
    print(f'{what}: {wording.brief(why)}; {problem}', file=sys.stderr)
    return AGAIN if again else _of_end(why.code)


def _of_end(code: int) -> int:
    """The exit code of a job that ends. AGAIN, with which a task may have ended, would let the script requeue it."""
    return exit_codes.FAILED if code == AGAIN else code


def main(argv: Sequence[str], now: Callable[[], float] = time.time) -> int:
    """Runs the command line `argv`, which has no program name, and returns the exit code."""
    parser = argparse.ArgumentParser(prog='python -m estimator_trainer.submit.verdict', allow_abbrev=False)
    parser.add_argument('--model_dir', required=True)
    parser.add_argument('--job')
    parser.add_argument('--folder', type=pathlib.Path, required=True)
    parser.add_argument('--attempt', type=int, required=True)
    parser.add_argument('--roles', type=lambda text: dict(tf_config.read_layout(roles=text).roles), required=True)
    parser.add_argument('--max_restarts', type=int, required=True)
    parser.add_argument('code', type=int)
    args = parser.parse_args(argv)
    if args.code == exit_codes.OK:
        return exit_codes.OK
    try:
        if urls.is_url(args.model_dir):
            opened = connection.open_for_reading(args.model_dir, os.environ)
            notes: Record = InStore(args.job, opened)
        else:
            notes = InFolder(args.folder, args.model_dir)
        decision, why, reports = decide(args.code, notes, args.folder, args.attempt, args.max_restarts, now())
    except OSError as error:
        print(f'{error.filename}: {error.strerror}', file=sys.stderr)
        return exit_codes.CANNOT_WRITE
    except (store.StoreError, UsageError) as error:
        return _without_record(args, str(error))
    tasks = sum(args.roles.values())
    print(sentence(decision, why, args.max_restarts, tasks - reports, tasks), file=sys.stderr)
    return AGAIN if decision.restart else _of_end(decision.exit_code)


if __name__ == '__main__':
    inherited.mend()
    sys.exit(main(sys.argv[1:]))
