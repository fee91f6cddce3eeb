"""Starts the runs of a parity test, one after the other and bounded, and reads what they wrote."""

import contextlib
import json
import os
import signal
import subprocess

from estimator_trainer import exit_codes
from estimator_trainer.supervisor import process as processes
from estimator_trainer.tools.parity.run_list import Run

_LAST_LINES = 15


class RunFailed(Exception):
    """A run of the trainer did not end with 0. The message has its last lines."""


def start(run: Run, timeout_secs: float) -> None:
    """Runs one command to its end, its output in `<model_dir>.log`. It does not outlive this process.

    Raises:
        RunFailed: it ended with another code than 0, or not within `timeout_secs`; then its whole
            process group has been killed.
    """
    log_path = f'{run.model_dir}.log'
    environment = {name: value for name, value in os.environ.items() if name != 'TF_CONFIG'}
    parent = os.getpid()
    with open(log_path, 'w+', encoding='utf-8', errors='replace') as log:
        process = subprocess.Popen(
            run.command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: processes.tie_to_parent(parent),
        )
        try:
            code = process.wait(timeout_secs)
        except subprocess.TimeoutExpired:
            raise RunFailed(
                f'{run.name}: not done after {timeout_secs:g} s (--timeout_secs)\n{_tail(log_path)}'
            ) from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if code != exit_codes.OK:
        raise RunFailed(f'{run.name}: exit code {code} ({exit_codes.describe(code)})\n{_tail(log_path)}')


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


def _tail(path) -> str:
    with open(path, encoding='utf-8', errors='replace') as file:
        return ''.join(f'  | {line}' for line in file.readlines()[-_LAST_LINES:])
