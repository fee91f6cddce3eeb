"""`train`, `evaluate`, `export` and `predict` for Python (docs/api.md): each runs the command of its name."""

import json
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from estimator_trainer import exit_codes
from estimator_trainer.api import call_flags, child_command, run_result
from estimator_trainer.api.run_result import Result
from estimator_trainer.config import declaration, trainer_config, urls
from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import loading
from estimator_trainer.jobs.job import Job
from estimator_trainer.run_dir import file_names, protocol
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.supervisor import options
from estimator_trainer.supervisor.policy.restarts import Limits
from estimator_trainer.tools.finished.evaluate import EvaluateFlags
from estimator_trainer.tools.finished.export import ExportFlags
from estimator_trainer.tools.predict.predict_command import PredictFlags

_MARGIN_SECS = 30  # beyond the time that a command allows itself to save and end
# Arguments of `train` itself, flags of programs, and one that the trainer has too.
_NOT_OF_CLUSTER = ('program', 'tf1', 'horovod', 'workers', 'evaluator', 'grace_secs')


def train(
    job: 'str | os.PathLike[str] | Job',
    *,
    model_dir: 'str | os.PathLike[str]',
    max_steps: int | None = None,
    workers: int = 1,
    evaluator: bool | None = None,
    params: Mapping[str, Any] | None = None,
    **flags: Any,
) -> Result:
    """Trains a job as `python -m estimator_trainer` does, in a process of its own. The same call goes on from the last
    checkpoint.

    Args:
        job: a name as --job takes it, such as 'mnist' or 'package.module:job', or a Job.
        model_dir: folder of checkpoints, metrics and exports, or its URL in an object store.
        max_steps: the global step at which training ends; `epochs=` may be given in its place.
        workers: with more than 1, a cluster of so many processes trains on this machine.
        evaluator: whether a further process evaluates meanwhile; None: in a cluster of several workers.
        params: of the job, name -> value.
        flags: further flags of the trainer by their names, and those of `cluster`, such as ps=1.

    Raises:
        UsageError: a flag, the job or a param is wrong, the model_dir is of another run, or the module of a job calls
            this while a process of ours imports it. Nothing was trained.
        DatasetError: the data are not there (66), or an example or every checkpoint is damaged (65).
        RunFailed: the run has failed in another way, or it is done, and its result cannot be read.
        KeyboardInterrupt: in this process; the run has saved and ended.
    """
    loading.refuse_while_importing('train')
    cluster = [one.name for one in declaration.declared(options.ClusterFlags) if one.name not in _NOT_OF_CLUSTER]
    of_trainer = {name: value for name, value in flags.items() if name not in cluster}
    of_cluster = {name: value for name, value in flags.items() if name in cluster}
    if 'param' in of_trainer:
        raise UsageError(f"param={of_trainer['param']!r}: give the params of the job as params={{'name': value}}.")
    known = {'model_dir': os.fspath(model_dir), 'max_steps': max_steps}
    with child_command.own_folder() as folder:
        name = call_flags.job_name(job, folder)
        meant = {each: f'. If it is a param of the job, give params={{{each!r}: …}}' for each in of_trainer}
        words = call_flags.words(trainer_config.TrainerConfig, {'job': name, **known, **of_trainer}, meant)
        words += call_flags.of_params(params)
        config = trainer_config.parse(['train', *words])
        is_cluster = bool(workers != 1 or evaluator or of_cluster)
        grace: float = config.grace_secs + _MARGIN_SECS
        if is_cluster:
            asked = {'workers': workers, 'evaluator': workers > 1 if evaluator is None else evaluator, **of_cluster}
            words = ['cluster', *call_flags.words(options.ClusterFlags, asked), '--', *words]
            grace += Limits.grace_secs
        error_file = os.path.join(folder, 'error.json')
        environ = child_command.environment(os.environ, sys.path)
        began = time.time()
        ended = child_command.run(words, grace, environ | ({} if is_cluster else {protocol.ERROR_FILE: error_file}))
        if ended.code != exit_codes.OK:
            report = RunFolder(config.model_dir).report if is_cluster else {}
            is_new = isinstance(report.get('started'), float) and report['started'] >= began
            raise child_command.failure(ended, protocol.read_json(error_file), report if is_new else {})
    if config.dry_run:
        return Result(config.model_dir)
    return run_result.read(config.model_dir, is_cluster)


def evaluate(model_dir: 'str | os.PathLike[str]', **flags: Any) -> dict[str, float]:
    """Evaluates a checkpoint of a run as `python -m estimator_trainer evaluate` does.

    Args:
        model_dir: of the run.
        flags: those of the command by their names, such as checkpoint_step or eval_files.

    Returns:
        The metrics, `global_step` among them. One that is not finite is NaN.

    Raises:
        UsageError, DatasetError, RunFailed: as `train`.
    """
    printed = json.loads(_printed('evaluate', EvaluateFlags, {'model_dir': os.fspath(model_dir), **flags}))
    return {name: math.nan if value is None else value for name, value in printed.items()}


def export(model_dir: 'str | os.PathLike[str]', **flags: Any) -> str:
    """Writes a SavedModel of a checkpoint of a run as `python -m estimator_trainer export` does.

    Args:
        model_dir: of the run.
        flags: those of the command by their names, such as checkpoint_step or to.

    Returns:
        The folder of the SavedModel.

    Raises:
        UsageError, DatasetError, RunFailed: as `train`.
    """
    return _printed('export', ExportFlags, {'model_dir': os.fspath(model_dir), **flags})


def predict(
    model: 'str | os.PathLike[str] | None' = None,
    *,
    files: 'str | Sequence[str]',
    out: 'str | os.PathLike[str]',
    **flags: Any,
) -> str:
    """Predicts every example of files as `python -m estimator_trainer predict` does. The same call goes on if it was
    interrupted.

    Args:
        model: a SavedModel, a folder above several, or the model_dir of a run. For one in an object store, give
            export= or model_dir= in its place.
        files: names or globs of the files with the examples.
        out: the file for the predictions, which ends with .parquet, .csv or .jsonl.
        flags: further flags of the command by their names, such as key or batch_size.

    Returns:
        The path of the file with the predictions.

    Raises:
        UsageError, DatasetError, RunFailed: as `train`.
    """
    of_model = {} if model is None else {_kind_of(os.fspath(model)): os.fspath(model)}
    _run('predict', PredictFlags, {**of_model, 'files': files, 'out': os.fspath(out), **flags})
    out = os.fspath(out)
    return out if urls.is_url(out) else os.path.abspath(os.path.expanduser(out))


def _kind_of(model: str) -> str:
    """The flag of `predict` for a model."""
    if urls.is_url(model):
        raise UsageError(f'model={model!r}: say what it is, by export= or model_dir=.')
    folder = os.path.expanduser(model)
    is_run = os.path.isfile(os.path.join(folder, file_names.CONFIG)) or os.path.isdir(os.path.join(folder, 'export'))
    return 'model_dir' if is_run else 'export'


def _run(command: str, config: type, flags: Mapping[str, Any], shows_stdout: bool = True) -> str:
    """Runs a command. Its stdout, unless that is shown."""
    loading.refuse_while_importing(command)
    environ = child_command.environment(os.environ, sys.path)
    words = call_flags.words(config, flags)
    ended = child_command.run([command, *words], _MARGIN_SECS, environ, shows_stdout)
    if ended.code != exit_codes.OK:
        raise child_command.failure(ended, {}, {})
    return ended.out


def _printed(command: str, config: type, flags: Mapping[str, Any]) -> str:
    """The last line of stdout, which holds the result."""
    return _run(command, config, flags, shows_stdout=False).splitlines()[-1]
