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
import math
import os
import pathlib
import random
import sys
import time

import tf_config
from estimator_trainer import exit_codes
from estimator_trainer.config import urls
from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import protocol
from estimator_trainer.storage import connection, store
from estimator_trainer.submit import verdict_record
from estimator_trainer.supervisor.policy import causes, restarts
from estimator_trainer.supervisor.reports import wording
from tf_config import streams

AGAIN = 75  # EX_TEMPFAIL of sysexits.h
ERROR_FILES = '*.error.json'


def rules(max_restarts: int) -> restarts.Rules:
    """Of restarts by an engine, which takes its own time to start a job again."""
    return restarts.Rules(max_restarts, window_secs=math.inf, backoff_secs=0)


def ends(folder: pathlib.Path) -> list[causes.TaskEnd]:
    """How tasks ended, by the error files in a folder. A node may have told of the same task twice."""
    found = {}
    for path in sorted(folder.glob(ERROR_FILES)):
        value = protocol.read_json(str(path))
        name, code = value.get('task'), value.get('code')
        if isinstance(name, str) and type(code) is int and code:
            found[name] = causes.TaskEnd(name, code, secs=0, error=causes.TaskError.of(value))
    return [*found.values()]


def cause(code: int, ended: list[causes.TaskEnd]) -> causes.Cause:
    """What a gang failed of that ended with `code`."""
    return causes.cause_of(ended, ended) if ended else causes.Cause('', code)


def decide(
    code: int, notes: verdict_record.Record, folder: pathlib.Path, attempt: int, max_restarts: int, now: float
) -> tuple[restarts.Decision, causes.Cause, int]:
    """(Decision, Cause, how many tasks left a word) of an attempt, numbered from 0. It is put on record."""
    known = notes.read()
    earlier = known.get('failures', []) if attempt else []  # of another job
    # Slurm restarts all tasks, so each failure is one of the gang, whose checkpoints are what it has achieved.
    history = restarts.History(rules(max_restarts), random.Random(0), lambda name: False, earlier)
    ended = ends(folder / str(attempt))
    why = cause(code, ended)
    decision = history.decide(why, now, notes.saved_step())
    notes.write({'failures': [dataclasses.asdict(failure) for failure in history.failures]})
    return decision, why, len(ended)


def said(decision: restarts.Decision, why: causes.Cause, max_restarts: int, silent: int, tasks: int) -> str:
    """The decision in one line. `silent`: how many of `tasks` left no error file."""
    what = wording.brief(why)
    if silent:
        what += f'; {silent} of {tasks} tasks left no word (killed, or done)'
    if decision.restart:
        return f'again, {decision.number} of {max_restarts} without a new checkpoint: {what}'
    return f'the end, {decision.reason.value}: {what}'


def _without_record(args, problem: str) -> int:
    """The exit code if the store does not answer. Of the earlier decisions only the number is known then."""
    why = cause(args.code, ends(args.folder / str(args.attempt)))
    again = exit_codes.retryable(why.code) and args.attempt < args.max_restarts
    what = f'again, {args.attempt + 1} of {args.max_restarts}' if again else 'the end'
    print(f'{what}: {wording.brief(why)}; {problem}', file=sys.stderr)
    return AGAIN if again else why.code


def main(argv, now=time.time) -> int:
    """Runs the command line `argv`, without program name. The exit code."""
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
            notes: verdict_record.Record = verdict_record.InStore(args.job, opened)
        else:
            notes = verdict_record.InFolder(args.folder, args.model_dir)
        decision, why, told = decide(args.code, notes, args.folder, args.attempt, args.max_restarts, now())
    except OSError as error:
        print(f'{error.filename}: {error.strerror}', file=sys.stderr)
        return exit_codes.CANNOT_WRITE
    except (store.StoreError, UsageError) as error:
        return _without_record(args, str(error))
    tasks = sum(args.roles.values())
    print(said(decision, why, args.max_restarts, tasks - told, tasks), file=sys.stderr)
    return AGAIN if decision.restart else decision.exit_code


if __name__ == '__main__':
    streams.outlive_readers()
    sys.exit(main(sys.argv[1:]))
