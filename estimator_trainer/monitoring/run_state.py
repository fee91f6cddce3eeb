"""What is known of a run at the moment of a scrape: what its files say, and the memory of its tasks."""

import contextlib
import os
import time
from collections.abc import Mapping
from typing import NamedTuple

from estimator_trainer.run_dir.run_folder import RunFolder


class RunState(NamedTuple):
    """What is known. {} and None: nothing is.

    Attributes:
        config: config.json.
        training: training.json of the processes that run now; not that of an earlier run.
        line: the last line of metrics.jsonl that they have written.
        evaluation: the last line of eval/metrics.jsonl, of an earlier run as well: it tells of a checkpoint.
        checkpoint_at: when the last checkpoint was written, in seconds since the epoch.
        state: of the run, one of training_file.STATES or of those in run_dir/status_file.py.
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
    """What is known of a run whose chief is this process.

    Args:
        task: its name.
        since: when it began, in seconds since the epoch.
    """
    run = RunFolder(model_dir)
    training = run.training if run.training.get('pid') == os.getpid() else {}
    state = _state(run, model_dir, training, since)
    return state._replace(state=training.get('state'), resident={task: _resident(os.getpid())})


def of_cluster(model_dir: str, status: Mapping) -> RunState:
    """What is known of a run of the supervisor.

    Args:
        status: what it knows, as it writes it to status.json; {} before its first gang.
    """
    run = RunFolder(model_dir)
    training = run.training if status and run.training.get('generation') == status['generation'] else {}
    tasks = {task['name']: task['pid'] for task in status.get('tasks', ())}
    return _state(run, model_dir, training, status.get('started', float('inf')))._replace(
        state=status.get('state'),
        restarts=status.get('restarts'),
        resident={name: pid and _resident(pid) for name, pid in tasks.items()},
    )


def _state(run: RunFolder, model_dir: str, training: Mapping, since: float) -> RunState:
    line_time = run.newest_metrics.get('time')
    line = run.newest_metrics if isinstance(line_time, float | int) and line_time >= since else {}
    return RunState(
        model_dir=model_dir,
        now=time.time(),
        config=run.config,
        training=training,
        line=line,
        evaluation=run.newest_evaluation,
        checkpoint_at=run.named_time,
    )


def _resident(pid: int) -> int | None:
    """Bytes of memory that a process of this machine holds."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open(f'/proc/{pid}/statm') as file:
            return int(file.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')
    return None
