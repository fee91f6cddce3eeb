"""Starts the runs of a parity test, one after the other and bounded, and reads what they wrote."""

import json
import os

from estimator_trainer import exit_codes
from estimator_trainer.tools import bounded
from estimator_trainer.tools.parity.run_list import PlannedRun


def start(run: PlannedRun, timeout_secs: float) -> None:
    """Runs one command to its end, its output in `<model_dir>.log`.

    Raises:
        RunFailed: as of `bounded.run`.
    """
    environment = {name: value for name, value in os.environ.items() if name != 'TF_CONFIG'}
    bounded.run(run.name, run.command, f'{run.model_dir}.log', timeout_secs, environment, exit_codes.describe)


def losses(model_dir: str) -> dict:
    """step -> loss, of metrics.jsonl; NaN where the line has none."""
    lines = _lines(os.path.join(model_dir, 'metrics.jsonl'))
    return {line['step']: _number(line.get('loss')) for line in lines if line.get('kind') == 'train'}


def evaluation(model_dir: str) -> dict:
    """metric -> value of the last evaluation, numbers only."""
    lines = _lines(os.path.join(model_dir, 'eval', 'metrics.jsonl'))
    return {
        name: value
        for name, value in (lines[-1] if lines else {}).items()
        if isinstance(value, (int, float)) and name not in ('step', 'time')
    }


def _lines(path) -> list:
    try:
        with open(path, encoding='utf-8') as file:
            return [json.loads(line) for line in file]
    except FileNotFoundError:
        return []


def _number(value) -> float:
    return float('nan') if value is None else float(value)
