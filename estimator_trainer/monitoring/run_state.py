"""What is known of a run at the moment of a scrape: its files, and the memory of its tasks. Changes nothing."""

import contextlib
import os
import time
from collections.abc import Mapping
from typing import NamedTuple

from estimator_trainer.run_dir import checkpoint_file, metrics_log, protocol, training_file


class RunState(NamedTuple):
    """What is known. {} and None: nothing is.

    Attributes:
        config: config.json.
        training: training.json of the processes that run now; not that of an earlier run.
        line: the last line of metrics.jsonl that they have written.
        evaluation: the last line of eval/metrics.jsonl, of an earlier run as well: it tells of a checkpoint.
        checkpoint_at: when the last checkpoint was written, in seconds since the epoch.
        state: of the run, one of training_file.STATES or of those in supervisor/status.py.
        restarts: of the gang.
        resident: name of each task of this machine -> bytes of memory; None: it does not run.
        now: seconds since the epoch.
    """

    model_dir: str
    now: float
    config: Mapping = {}
    training: Mapping = {}
    line: Mapping = {}
    evaluation: Mapping = {}
    checkpoint_at: float | None = None
    state: str | None = None
    restarts: int | None = None
    resident: Mapping[str, int | None] = {}


def of_process(model_dir: str, task: str, since: float) -> RunState:
    """Of a run whose chief is this process.

    Args:
        task: its name.
        since: when it began, in seconds since the epoch.
    """
    found = _read(model_dir, since)
    if found.training.get('pid') != os.getpid():
        found = found._replace(training={})
    return found._replace(state=found.training.get('state'), resident={task: _resident(os.getpid())})


def of_cluster(model_dir: str, status: Mapping) -> RunState:
    """Of a run of the supervisor.

    Args:
        status: what it knows, as it writes it to status.json; {} before its first gang.
    """
    found = _read(model_dir, status.get('started', float('inf')))
    if not status or found.training.get('generation') != status['generation']:
        found = found._replace(training={})
    tasks = {task['name']: task['pid'] for task in status.get('tasks', ())}
    return found._replace(
        state=status.get('state'),
        restarts=status.get('restarts'),
        resident={name: pid and _resident(pid) for name, pid in tasks.items()},
    )


def _read(model_dir: str, since: float) -> RunState:
    line = metrics_log.last(os.path.join(model_dir, 'metrics.jsonl'))
    time_of_line = line.get('time')
    return RunState(
        model_dir,
        time.time(),
        protocol.read_json(os.path.join(model_dir, 'config.json')),
        training_file.content(model_dir),
        line if isinstance(time_of_line, float | int) and time_of_line >= since else {},
        metrics_log.last(os.path.join(model_dir, 'eval', 'metrics.jsonl')),
        checkpoint_file.written_at(model_dir),
    )


def _resident(pid: int) -> int | None:
    """Bytes of memory that a process of this machine holds."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open(f'/proc/{pid}/statm') as file:
            return int(file.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')
    return None
