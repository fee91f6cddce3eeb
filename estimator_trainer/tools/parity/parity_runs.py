"""Starts the runs of a parity test, one after the other and bounded, and reads what they wrote."""

import os

from estimator_trainer import exit_codes
from estimator_trainer.run_dir import metrics_log
from estimator_trainer.run_dir.run_folder import RunFolder
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
    lines = (line for block in RunFolder(model_dir).metrics() for line in block.lines)
    return {line['step']: _number(line.get('loss')) for line in lines if line.get('kind') == 'train'}


def evaluation(model_dir: str) -> dict:
    """metric -> value of the last evaluation, numbers only."""
    line = RunFolder(model_dir).newest_evaluation
    return {
        name: value
        for name, value in line.items()
        if isinstance(value, (int, float)) and name not in metrics_log.NOT_METRICS
    }


def _number(value) -> float:
    return float('nan') if value is None else float(value)
