"""A prediction from its plan to its file: what was done before is found, the rest is predicted, all is joined.

Beside the result FILE stands the folder FILE.parts until all is done:

    plan.json     what decides the rows
    lock          held by the command that works on it
    part-*        the rows of one part each
    *.index       where the records of files begin beside which that cannot be kept
    joined.json   which file all of them have been joined into

Files of other names stay, and so does the folder then.
"""

import contextlib
import json
import logging
import os
import re

from estimator_trainer import exit_codes
from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import locks, protocol, removal
from estimator_trainer.this_process.signal_pipe import Signals
from estimator_trainer.tools.predict import children, parts
from estimator_trainer.tools.predict import predict_plan as plans
from estimator_trainer.tools.predict.children import Ended
from estimator_trainer.tools.predict.prediction_progress import Progress

__all__ = ['Ended', 'Progress', 'predict']

_log = logging.getLogger('estimator_trainer')
_LOCK, _JOINED = 'lock', 'joined.json'
_UNFINISHED = removal.Named(r'(?:part-\d{6,}|plan|joined)\.[a-z]+(?:\.\d+)?\.tmp')
_PARTS = removal.Named(r'(?:part-\d{6,}|plan)\.(?:parquet|csv|jsonl|json)|[0-9a-f]{16}-.*\.index(?:\.\d+)?')
_LAST = removal.Named(f'{re.escape(_JOINED)}|{_LOCK}')


def predict(plan: plans.PredictPlan, out: str, processes: int, timeout_secs: float, progress: Progress) -> None:
    """Writes the predictions of a plan into the file `out`, which is not there yet.

    Raises:
        UsageError: `out` is there, or its folder is of another prediction or in use.
        Ended: a signal came, or a process failed.
        OSError: a file cannot be written.
    """
    folder = f'{out}.parts'
    if os.path.lexists(out) and not _is_joined(out, folder):
        raise _is_there(out)
    os.makedirs(folder, exist_ok=True)
    with Signals() as signals, locks.Lock(os.path.join(folder, _LOCK)) as lock:
        if not lock.take():
            raise UsageError(f'{folder}: {lock.holder()} is at work on it; wait for its end, or name another --out.')
        if os.path.lexists(out):
            if not _is_joined(out, folder):  # another command has just ended
                if not parts.has_any(folder):
                    _remove(folder)
                raise _is_there(out)
        else:
            _enter(folder, plan)
            try:
                _predict_and_join(plan, folder, out, processes, timeout_secs, progress, signals)
            except (UsageError, Ended) as error:
                if not (isinstance(error, Ended) and exit_codes.retryable(error.code)) and not parts.has_any(folder):
                    _remove(folder)  # nothing has been done
                raise
        _remove(folder)


def _predict_and_join(plan, folder, out, processes, timeout_secs, progress, signals) -> None:
    _log.info('%s, %d files', plan.export, len(plan.files))

    def heard(fields):
        if 'rows' in fields and not progress.rows:
            before = f', {fields["there"]:,} of them predicted before' if fields['there'] else ''
            _log.info('signature %s, %s rows%s', fields['signature'], f'{fields["rows"]:,}', before)
            progress.start(fields['rows'], fields['there'])
        if 'done' in fields:
            progress.add(fields['done'])

    def start(number):
        return children.command(folder, number, processes)

    children.run(start, processes, signals, timeout_secs, heard, progress.show)
    progress.close()
    found = parts.Parts(folder, plan.suffix, progress.rows, plan.rows_per_part)
    _log.info('joins %d parts', found.number)
    joined = os.path.join(folder, f'joined{plan.suffix}{parts.TEMPORARY}')
    found.join(joined, lambda part: children.stop_if_told(signals))
    protocol.write_json(os.path.join(folder, _JOINED), _identity(joined))
    if os.path.lexists(out):
        raise _is_there(out)
    os.replace(joined, out)


def _enter(folder, plan) -> None:
    """Makes the folder that of the plan.

    Raises:
        UsageError: it holds parts of another plan, or something else.
    """
    path = os.path.join(folder, plans.NAME)
    old = plans.load(path)
    if old is None and any(name != _LOCK and not _UNFINISHED.covers(name) for name in os.listdir(folder)):
        raise UsageError(f'{folder}: holds files and no plan of a prediction; remove it, or name another --out.')
    removal.files_in(folder, _UNFINISHED)  # of processes that were killed
    different = plans.difference(old, plan) if old else ''
    if different and parts.has_any(folder):
        raise UsageError(
            f'{folder} holds parts of another prediction: {different}. Remove that folder to begin anew, or name '
            'another --out.'
        )
    if old != plan:
        protocol.write_json(path, plans.to_json(plan))


def _is_there(out) -> UsageError:
    return UsageError(f'--out={out}: is there already; remove it, or name another file.')


def _is_joined(out, folder) -> bool:
    """Whether `out` is what the parts of the folder were joined into, and just the folder is left to be removed."""
    try:
        with open(os.path.join(folder, _JOINED), encoding='utf-8') as file:
            return json.load(file) == _identity(out)
    except (OSError, ValueError):
        return False


def _identity(path) -> dict:
    status = os.stat(path)
    return {'inode': status.st_ino, 'bytes': status.st_size, 'modified_ns': status.st_mtime_ns}


def _remove(folder) -> None:
    """Removes the folder; _JOINED, by which a restart knows that all is done, after the parts."""
    for proof in (_UNFINISHED, _PARTS, _LAST):
        removal.files_in(folder, proof)
    with contextlib.suppress(OSError):
        removal.empty_folder(folder, removal.Named(r'.*\.parts'))
