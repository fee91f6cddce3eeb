"""The runs of a parity test: each loop in each layout, with one global batch. Pure Python."""

import dataclasses
import itertools
import os
import sys
from collections.abc import Sequence

from estimator_trainer.config import job_flags

ESTIMATOR = 'estimator'
LOOPS = tuple(job_flags.LOOPS)
LAYOUTS = {'one': '1 process', 'replicas': '2 replicas', 'workers': '2 workers'}
_REPLICAS = {'one': 1, 'replicas': 2, 'workers': 2}

# One checkpoint and one line of metrics.jsonl for each step; nothing that takes time for nothing.
_FLAGS = (
    '--deterministic',
    '--save_checkpoints_steps=1',
    '--keep_checkpoints=0',
    '--log_every_steps=1',
    '--export=none',
    '--progress=off',
)


@dataclasses.dataclass(frozen=True)
class PlannedRun:
    """One run of the trainer: what it is called, where it writes, and the command that starts it."""

    name: str
    loop: str
    model_dir: str
    command: tuple


def runs(
    loops: Sequence[str], layouts: Sequence[str], folder: str, global_batch: int, trainer_flags: Sequence[str]
) -> list[PlannedRun]:
    """Every loop in every layout; the first one is what the others are held against.

    Args:
        folder: the model_dirs are made in it.
        global_batch: divisible by the replicas of every layout.
        trainer_flags: of the job and its data, the same for all.
    """
    return [
        _run(loop, layout, folder, global_batch, trainer_flags) for layout, loop in itertools.product(layouts, loops)
    ]


def replicas(layouts: Sequence[str]) -> int:
    """What the global batch must be divisible by."""
    return max(_REPLICAS[layout] for layout in layouts)


def _run(loop, layout, folder, global_batch, trainer_flags) -> PlannedRun:
    model_dir = os.path.join(folder, f'{loop}-{layout}')
    flags = [
        *trainer_flags,
        *_FLAGS,
        f'--loop={loop}',
        f'--model_dir={model_dir}',
        f'--batch_size={global_batch // _REPLICAS[layout]}',
    ]
    module = [sys.executable, '-m', 'estimator_trainer']
    if layout == 'workers':
        module += ['cluster', '--workers=2', '--noevaluator', '--max_restarts=0', '--']
    elif layout == 'replicas':
        flags += ['--strategy=mirrored', '--num_replicas=2']
    else:
        flags += ['--strategy=none']
    return PlannedRun(f'{loop}, {LAYOUTS[layout]}', loop, model_dir, tuple([*module, *flags]))
