"""The runs of `parity`: each loop in each layout, with one global batch. Starts them, and reads what they wrote."""

import glob
import itertools
import os
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from estimator_trainer import exit_codes, jobs
from estimator_trainer.config import job_flags
from estimator_trainer.run_dir import metrics_log
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.tools import bounded
from estimator_trainer.tools.comparison.traces import LOSS, METRICS, WEIGHTS, Key, Record, Value

ESTIMATOR = 'estimator'
LOOPS = tuple(job_flags.LOOPS)
LAYOUTS = {'one': '1 process', 'replicas': '2 replicas', 'workers': '2 workers', 'accumulated': '2 batches a step'}
SHARES = {'one': 1, 'replicas': 2, 'workers': 2, 'accumulated': 2}  # batches that make up the global one

# One checkpoint and one line of metrics.jsonl for each step; nothing that takes time for nothing.
_FLAGS = (
    '--deterministic',
    '--save_checkpoints_steps=1',
    '--keep_checkpoints=0',
    '--log_every_steps=1',
    '--export=none',
    '--progress=off',
)


class PlannedRun(NamedTuple):
    """One run of the trainer: what it is called, where it writes, and the command that starts it."""

    name: str
    model_dir: str
    command: tuple[str, ...]


def plan(
    loops: Sequence[str], layouts: Sequence[str], folder: str, global_batch: int, trainer_flags: Sequence[str]
) -> list[PlannedRun]:
    """Every loop in every layout; the first one is what the others are held against.

    Args:
        folder: the model_dirs are made in it.
        global_batch: divisible by the SHARES of every layout.
        trainer_flags: of the job and its data, the same for all.
    """
    runs = []
    for layout, loop in itertools.product(layouts, loops):
        model_dir = os.path.join(folder, f'{loop}-{layout}')
        size = global_batch // SHARES[layout]
        flags = [*trainer_flags, *_FLAGS, f'--loop={loop}', f'--model_dir={model_dir}', f'--batch_size={size}']
        module = [sys.executable, '-m', 'estimator_trainer']
        if layout == 'workers':
            module += ['cluster', '--workers=2', '--noevaluator', '--max_restarts=0', '--']
        elif layout == 'replicas':
            flags += ['--strategy=mirrored', '--num_replicas=2']
        else:
            flags += ['--strategy=none']
        if layout == 'accumulated':
            flags += ['--accumulate_steps=2']
        runs.append(PlannedRun(f'{loop}, {LAYOUTS[layout]}', model_dir, (*module, *flags)))
    return runs


def start(run: PlannedRun, timeout_secs: float) -> None:
    """Runs one command to its end, its output in `<model_dir>.log`.

    Raises:
        RunFailed: as of `bounded.run`.
    """
    environment = {name: value for name, value in os.environ.items() if name != 'TF_CONFIG'}
    bounded.run(run.name, run.command, f'{run.model_dir}.log', timeout_secs, environment, exit_codes.describe)


def read(runs: Sequence[PlannedRun], job: str, data_dir: str) -> list[Record]:
    """The records of runs: losses and weights of each step, and the metrics of the last evaluation. Imports
    TensorFlow.

    Args:
        data_dir: of the data sets, '' for the trainer's.

    Raises:
        bounded.RunFailed: a checkpoint lacks a weight, which could not be compared.
    """
    names = _called(runs[0].model_dir, data_dir) if jobs.load(job).make_model else _trained(runs[0].model_dir)
    return [_read(run, names) for run in runs]


def _read(run: PlannedRun, names: Mapping[str, str]) -> Record:
    from estimator_trainer.run_dir import checkpoints
    from estimator_trainer.tools.migrate import weights

    folder = RunFolder(run.model_dir)
    values: dict[Key, Value] = {}
    lines = (line for block in folder.metrics() for line in block.lines)
    losses = {line['step']: line.get('loss') for line in lines if line.get('kind') == 'train'}
    prefixes = [os.path.join(run.model_dir, each.name) for each in folder.checkpoints]
    saved = {checkpoints.step_of(prefix): prefix for prefix in prefixes}
    for step in sorted({*losses, *saved}):
        if step in losses:
            values[Key(LOSS, 0, 0, step, 'loss')] = Value.of(float('nan' if losses[step] is None else losses[step]))
        if step in saved and checkpoints.is_of_objects(saved[step]):
            arrays = weights.from_keras(saved[step])
        else:
            found = weights.from_estimator(saved[step]) if step in saved else {}
            arrays = {names[name]: array for name, array in found.items() if name in names}
        if step in saved and (missing := sorted({*names.values()} - {*arrays})):
            raise bounded.RunFailed(f'{run.name}: the checkpoint of step {step} lacks the weights {", ".join(missing)}')
        values |= {Key(WEIGHTS, 0, 0, step, name): Value.of(arrays[name]) for name in names.values() if name in arrays}
    last = max((key.step for key in values), default=0)
    for name, value in folder.newest_evaluation.items():
        if isinstance(value, (int, float)) and name not in metrics_log.NOT_METRICS:
            values[Key(METRICS, 0, 0, last, name)] = Value.of(float(value))
    return Record(run.name, values, set(names.values()))


def _called(model_dir: str, data_dir: str) -> dict[str, str]:
    """Name in an Estimator's checkpoint -> name in Keras, of every weight of a run's job."""
    from estimator_trainer.tools.migrate import loaded_run, variable_names, weights

    run = loaded_run.load(model_dir, 0, data_dir)
    pairs = weights.keras_job(run.job, run.params, run.features).pairs
    return {pair.estimator: pair.keras for pair in pairs if pair.kind == variable_names.WEIGHT}


def _trained(model_dir: str) -> dict[str, str]:
    """Name in an Estimator's checkpoint -> itself, of every variable that the graph of its first checkpoint trains. The
    parts of a partitioned variable have one name there."""
    from tensorflow.core.framework import variable_pb2
    from tensorflow.core.protobuf import meta_graph_pb2

    graph = meta_graph_pb2.MetaGraphDef()
    path = min(glob.glob(os.path.join(glob.escape(model_dir), 'model.ckpt-*.meta')), key=len)
    with open(path, 'rb') as file:
        graph.ParseFromString(file.read())
    variables = graph.collection_def['trainable_variables'].bytes_list.value
    trained = map(variable_pb2.VariableDef.FromString, variables)
    names = (each.save_slice_info_def.full_name or each.variable_name.partition(':')[0] for each in trained)
    return {name: name for name in names}
