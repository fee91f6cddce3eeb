"""Reads what a run has said of itself: evaluations in files of events, and the files of this trainer."""

import dataclasses
import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.run_dir import config_file, events, file_names, metrics_log
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.tools.inspection.facts import EvaluationMetrics, OwnRun

LARGEST_EVENTS = 256 << 20
_NOT_IN_COMMAND = ('model_dir', 'dry_run', 'progress')


def evaluations(root: str, folders: Mapping[str, Sequence[str]]) -> tuple[list[EvaluationMetrics], list[str]]:
    """The evaluations in the folders of a run, by folder and step; and a note on each file that was not read in full.

    Args:
        folders: folder, relative to root -> files of events.
    """
    metrics: dict[tuple[str, int], dict[str, float]] = {}
    notes = []
    for folder, paths in folders.items():
        lines = metrics_log.MetricsLog(os.path.join(root, folder, file_names.METRICS)).read()
        for line in lines:
            numbers = {name: value for name, value in line.items() if isinstance(value, float) and name != 'time'}
            if isinstance(line.get('step'), int):
                metrics.setdefault((folder, line['step']), {}).update(numbers)
        for path in () if lines else paths:
            name, size = os.path.relpath(path, root), os.path.getsize(path)
            if size > LARGEST_EVENTS:
                notes.append(f'{name} is not read: it has {size >> 20} MiB.')
                continue
            try:
                for event in events.read(path):
                    metrics.setdefault((folder, event.step), {}).update(event.values)
            except ValueError as error:
                notes.append(f'{name} {error}.')
    listed = [EvaluationMetrics(folder, step, values) for (folder, step), values in sorted(metrics.items()) if values]
    return listed, notes


def own_run(root: str) -> tuple[OwnRun | None, str]:
    """What config.json, training.json and metrics.jsonl of a run of this trainer say; None if it is no such run. And
    what is wrong with config.json."""
    run = RunFolder(root)
    if not config_file.KEYS <= run.config.keys():
        damage = next((each for each in run.problems if 'it holds no object' not in each), '')
        return None, damage.replace(' is damaged: ', ': ')
    if not isinstance(run.config['flags'], dict) or not isinstance(run.config['params'], dict):
        return None, 'config.json: its flags or params are no objects.'
    lines = [line for line in run.last_metrics if line.get('kind') == 'train']
    own = OwnRun(
        str(run.config['job']),
        str(run.config['loop']),
        run.config.get('dataset') or '',
        _command(run.flags, root),
        run.config,
        run.training,
        lines[-1] if lines else {},
    )
    return own, ''


def _command(flags: Mapping[str, Any], root: str) -> str:
    """The command that goes on with a run, without the cluster that it may have had."""
    given = []
    for field in dataclasses.fields(TrainerConfig):
        default, value = field.default, flags.get(field.name, field.default)
        value = tuple(value) if isinstance(value, list) else value
        if field.name in _NOT_IN_COMMAND or value == default:
            continue
        if isinstance(value, bool):
            given.append(f'--{field.name}' if value else f'--no{field.name}')
        elif field.metadata['flag'].repeated:
            given += [f'--{field.name}={shlex.quote(str(each))}' for each in value]
        else:
            text = ','.join(map(str, value)) if isinstance(value, tuple) else str(value)
            given.append(f'--{field.name}={shlex.quote(text)}')
    return ' '.join(['python -m estimator_trainer', *given, f'--model_dir={shlex.quote(root)}'])
