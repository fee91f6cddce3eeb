"""Reads a model_dir, as far as it can be read. Changes nothing."""

import contextlib
import glob
import json
import os
import re
import time
from collections.abc import Sequence

from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import file_names, locks, protocol
from estimator_trainer.supervisor.reports import earlier_starts, report_file
from estimator_trainer.tools.report import event_file, metrics_file, spans, variables
from estimator_trainer.tools.report.curves import Log
from estimator_trainer.tools.report.run_facts import ListedCheckpoint, ListedExport, ListedFile, RunFiles
from estimator_trainer.tools.report.run_verdict import Alive

_EVENTS = 'events.out.tfevents.*'
_INDEX = re.compile(r'(?P<name>.+)\.index')
_SIGNS = ('config.json', 'training.json', 'metrics.jsonl', 'status.json', 'report.json', 'checkpoint', 'graph.pbtxt')
_LARGEST_EVENTS = 1 << 30  # of all files of one folder
_MOST_LOGS = 400
_MOST_STARTS = 300


def read(model_dir: str, name: str = '', now: float | None = None, shown: str = '') -> RunFiles:
    """Reads a run.

    Args:
        name, shown: as of RunFiles; '' for those that the path gives.
        now: seconds since the epoch; None: the clock's.

    Raises:
        UsageError: there is no such folder, or nothing of a run in it.
        OSError: the folder cannot be listed.
    """
    root = os.path.abspath(os.path.expanduser(model_dir))
    if not os.path.isdir(root):
        raise UsageError(f'{model_dir}: there is no such folder; name the model_dir of a run.')
    names = sorted(os.listdir(root))
    events = glob.glob(f'{glob.escape(root)}/{_EVENTS}')
    indexed = [each for each in names if each.endswith('.index')]
    if not (set(_SIGNS) & set(names) or events or indexed or os.path.isdir(os.path.join(root, 'eval'))):
        raise UsageError(f'{model_dir}: holds no run: none of {", ".join(_SIGNS[:4])}, no checkpoint and no events.')
    run = RunFiles(root, shown or root, name or os.path.basename(root) or root, time.time() if now is None else now)
    for field, path in (
        ('config', 'config.json'),
        ('training', file_names.TRAINING),
        ('status', file_names.STATUS),
        ('report', report_file.REPORT_FILE),
        ('earlier', earlier_starts.NAME),
        ('best', 'export/best/best.json'),
        ('stop', 'eval/stop.json'),
    ):
        setattr(run, field, _object(run, path))
    run.starts = sorted({float(began) for each in events if (began := event_file.began(each))})[-_MOST_STARTS:]
    run.train = _log(run, '', events or glob.glob(f'{glob.escape(root)}/train/{_EVENTS}'), spans.starts(run))
    for folder in _evaluation_folders(root):
        log = _log(run, folder, glob.glob(f'{glob.escape(os.path.join(root, folder))}/{_EVENTS}'))
        if len(log):
            run.evaluations[folder] = log
    run.checkpoints = _checkpoints(root) + _checkpoints(os.path.join(root, 'damaged'), damaged=True)
    run.exports = _exports(root, run.best)
    run.logs = _logs(root)
    run.alive = Alive(
        locks.is_held(os.path.join(root, '.trainer.lock')),
        locks.is_held(os.path.join(root, '.cluster.lock')),
        locks.is_held(os.path.join(root, 'eval', '.lock')),
    )
    _read_variables(run)
    return run


def sweep_of(runs: Sequence[RunFiles]) -> dict:
    """sweep.json of the sweep whose trials these are; {} where they are not of one."""
    folders = {os.path.dirname(run.path) for run in runs}
    found = protocol.read_json(os.path.join(folders.pop(), 'sweep.json')) if len(folders) == 1 else {}
    return found if isinstance(found.get('trials'), list) else {}


def _object(run: RunFiles, path: str) -> dict:
    try:
        with open(os.path.join(run.path, path), encoding='utf-8') as file:
            value = json.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        run.notes.append(f'{path} cannot be read: {error.strerror}.')
        return {}
    except ValueError as error:
        run.notes.append(f'{path} is damaged: it is no JSON ({error}).')
        return {}
    if not isinstance(value, dict):
        run.notes.append(f'{path} is damaged: it holds no object.')
        return {}
    return value


def _log(run: RunFiles, folder: str, events: list[str], starts: Sequence[float] = ()) -> Log:
    path = os.path.join(folder, 'metrics.jsonl')
    log = Log()
    try:
        log = metrics_file.read(os.path.join(run.path, path), starts)
        if log.damaged:
            run.notes.append(f'{path}: {log.damaged:,} of its lines cannot be read; they are left out.')
        if len(log) or not events:
            return log
        path = folder or 'the folder'
        size = sum(os.path.getsize(each) for each in events)
        if size > _LARGEST_EVENTS:
            run.notes.append(f'The files of events in {path} are not read: they have {size >> 20:,} MiB.')
            return log
        log, notes = event_file.read(events, starts)
        run.notes += [f'{os.path.join(folder, note)}.' for note in notes]
    except OSError as error:
        run.notes.append(f'{error.filename or path} cannot be read: {error.strerror}.')
    return log


def _evaluation_folders(root: str) -> list[str]:
    found = [*glob.glob(f'{glob.escape(root)}/eval*'), *glob.glob(f'{glob.escape(root)}/keras/eval*')]
    return sorted(os.path.relpath(each, root) for each in found if os.path.isdir(each))


def _checkpoints(folder: str, damaged: bool = False) -> list[ListedCheckpoint]:
    found = []
    with contextlib.suppress(OSError):
        sizes: dict[str, int] = {}
        changed: dict[str, float] = {}
        names = os.listdir(folder)
        for index in filter(None, map(_INDEX.fullmatch, names)):
            sizes[index['name']] = 0
        for name in names:
            base = re.sub(r'\.(?:index|meta|data-\d+-of-\d+)$', '', name)
            if base in sizes:
                with contextlib.suppress(OSError):
                    stat = os.stat(os.path.join(folder, name))
                    sizes[base] += stat.st_size
                    if name.endswith('.index'):  # written last
                        changed[base] = stat.st_mtime
        for name, size in sizes.items():
            step = re.search(r'-(\d+)$', name)
            found.append(ListedCheckpoint(name, int(step[1]) if step else None, size, changed.get(name, 0.0), damaged))
    return sorted(found, key=lambda each: (-1 if each.step is None else each.step, each.name))


def _exports(root: str, best: dict) -> list[ListedExport]:
    found = []
    for path in sorted(glob.glob(f'{glob.escape(root)}/export/*/*')):
        if not os.path.isdir(path) or not os.path.basename(path).isdigit():
            continue
        kind, when = os.path.basename(os.path.dirname(path)), float(os.path.basename(path))
        told = best if kind == 'best' and best.get('saved_model') == os.path.basename(path) else {}
        step, value = told.get('step'), told.get('value')
        found.append(
            ListedExport(
                os.path.relpath(path, root),
                kind,
                when if when < 1e11 else when / 1000,
                _bytes(path),
                step if type(step) is int else None,
                str(told.get('metric', '')),
                value if isinstance(value, float) else None,
            )
        )
    return found


def _bytes(folder: str) -> int:
    size = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                size += os.path.getsize(os.path.join(where, name))
    return size


def _logs(root: str) -> list[ListedFile]:
    found = []
    for path in sorted(glob.glob(f'{glob.escape(root)}/logs/*/*'), key=_natural):
        with contextlib.suppress(OSError):
            size = os.path.getsize(path)
            if size and os.path.isfile(path):
                found.append(ListedFile(os.path.relpath(path, root), size))
    return found[-_MOST_LOGS:]


def _natural(path: str) -> list:
    return [int(part) if part.isdigit() else part for part in re.split(r'(\d+)', path)]


def _read_variables(run: RunFiles) -> None:
    for each in reversed(run.checkpoints):
        folder = os.path.join(run.path, 'damaged') if each.damaged else run.path
        try:
            run.table = variables.read(os.path.join(folder, each.name))
            return
        except (ValueError, OSError, IndexError) as error:
            run.notes.append(f'{each.name}.index cannot be read: {error}.')
