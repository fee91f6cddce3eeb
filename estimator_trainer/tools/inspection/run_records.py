"""Reads what a run has said of itself: evaluations in files of events, and the files of this trainer."""

import dataclasses
import json
import os
import shlex
from typing import Any

import tensorflow as tf

from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.run_dir.metrics_log import MetricsLog
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.tools.inspection.facts import EvaluationMetrics, OwnRun

LARGEST_EVENTS = 256 << 20
_NOT_IN_COMMAND = ('model_dir', 'dry_run', 'progress')


def evaluations(root: str, folders: dict[str, list[str]]) -> tuple[list[EvaluationMetrics], list[str]]:
    """The evaluations in the folders of a run, by folder and step; and what is to be said of files that were not read.

    Args:
        folders: folder, relative to root -> files of events.
    """
    found: dict[tuple[str, int], dict[str, float]] = {}
    notes = []
    for name, paths in folders.items():
        own = MetricsLog(os.path.join(root, name, 'metrics.jsonl')).read()
        if own:
            for line in own:
                numbers = {key: value for key, value in line.items() if isinstance(value, float) and key != 'time'}
                if isinstance(line.get('step'), int):
                    found.setdefault((name, line['step']), {}).update(numbers)
            continue
        for path in paths:
            if os.path.getsize(path) > LARGEST_EVENTS:
                notes.append(f'{os.path.relpath(path, root)} is not read: it has {os.path.getsize(path) >> 20} MiB.')
                continue
            step_metrics, ending = _scalars(path)
            for step, metrics in step_metrics.items():
                found.setdefault((name, step), {}).update(metrics)
            if ending:
                notes.append(f'{os.path.relpath(path, root)} {ending}')
    return [EvaluationMetrics(name, step, metrics) for (name, step), metrics in sorted(found.items()) if metrics], notes


def _scalars(path: str) -> tuple[dict[int, dict[str, float]], str]:
    found: dict[int, dict[str, float]] = {}
    try:
        for event in tf.compat.v1.train.summary_iterator(path):
            for value in event.summary.value:
                number = _number(value)
                if number is not None:
                    found.setdefault(event.step, {})[value.tag] = number
    except tf.errors.DataLossError:
        return found, 'ends within a record: its writer was killed, or still writes.'
    except tf.errors.OpError as error:
        return found, f'cannot be read: {error.message.splitlines()[0]}'
    return found, ''


def _number(value: Any) -> float | None:
    if value.HasField('simple_value'):
        return value.simple_value
    if value.HasField('tensor') and value.tensor.dtype in (1, 2) and not value.tensor.tensor_shape.dim:
        return float(tf.make_ndarray(value.tensor))
    return None


def own_run(root: str) -> tuple[OwnRun | None, str]:
    """What config.json, training.json and metrics.jsonl of a run of this trainer say; None if it is no such run. And
    what is wrong with config.json."""
    try:
        with open(os.path.join(root, 'config.json'), encoding='utf-8') as file:
            config = json.load(file)
    except ValueError as error:
        return None, f'config.json: it is no JSON ({error}).'
    if not isinstance(config, dict) or not {'job', 'loop', 'params', 'flags', 'global_batch_size', 'seed'} <= set(
        config
    ):
        return None, ''
    if not isinstance(config['flags'], dict) or not isinstance(config['params'], dict):
        return None, 'config.json: its flags or params are no objects.'
    lines = [line for line in MetricsLog(os.path.join(root, 'metrics.jsonl')).read() if line.get('kind') == 'train']
    run = OwnRun(
        str(config['job']),
        str(config['loop']),
        config.get('dataset') or '',
        _command(config['flags'], root),
        config,
        RunFolder(root).training,
        lines[-1] if lines else {},
    )
    return run, ''


def _command(flags: dict, root: str) -> str:
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
