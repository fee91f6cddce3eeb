"""Reads what a run says of itself now: small files, and the end of the large ones. Changes nothing."""

import os
import time
from typing import NamedTuple

from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import file_names, locks, metrics_log, protocol
from estimator_trainer.tools.report.run_verdict import Alive

_FILES = (file_names.TRAINING, 'status.json', 'report.json', 'config.json')


class Now(NamedTuple):
    """What is known at one moment. {} for what is not there.

    Attributes:
        lines: the last lines of metrics.jsonl, oldest first.
        evaluation: the last line of eval/metrics.jsonl.
        at: seconds since the epoch.
        stop: eval/stop.json.
    """

    training: dict
    status: dict
    report: dict
    config: dict
    lines: list[dict]
    evaluation: dict
    alive: Alive
    at: float
    stop: dict = {}


def read(model_dir: str) -> Now:
    """Reads a run.

    Raises:
        UsageError: there is no such folder, or no run of this trainer in it.
    """
    root = os.path.expanduser(model_dir)
    if not os.path.isdir(root):
        raise UsageError(f'{model_dir}: there is no such folder; name the model_dir of a run.')
    training, status, report, config = (protocol.read_json(os.path.join(root, name)) for name in _FILES)
    lines = metrics_log.tail(os.path.join(root, 'metrics.jsonl'))
    alive = Alive(
        *(locks.is_held(os.path.join(root, name)) for name in ('.trainer.lock', '.cluster.lock', 'eval/.lock'))
    )
    if not (training or status or report or config or lines or alive):
        raise UsageError(f'{model_dir}: holds no run of this trainer; `inspect` says what it holds.')
    last = metrics_log.last(os.path.join(root, 'eval', 'metrics.jsonl'))
    stop = protocol.read_json(os.path.join(root, 'eval', 'stop.json'))
    return Now(training, status, report, config, lines, last, alive, time.time(), stop)
