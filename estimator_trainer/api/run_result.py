"""What a run has reached, from the files of its model_dir."""

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence

from estimator_trainer import exit_codes
from estimator_trainer.config import urls
from estimator_trainer.errors import RunFailed, UsageError
from estimator_trainer.run_dir import file_errors, metrics_log
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.storage import needs, store
from estimator_trainer.tools import local_copies
from estimator_trainer.tools.finished import chosen_checkpoint


@dataclasses.dataclass(frozen=True)
class Result:
    """What a call of `train` has reached.

    Attributes:
        model_dir: the folder of the run, or its URL.
        step: the global step of the end of training; None if nothing was trained, as by dry_run.
        why: why training has ended: 'max_steps' (also by epochs), 'early_stopping', 'max_secs', 'end_of_data',
            'step_stands', 'hook' or 'listener'.
        metrics: of the last evaluation, `global_step` among them; {} without one.
        best: of the evaluation that is best by the job's best_metric, likewise.
        checkpoint: the prefix of the newest checkpoint, such as MODEL_DIR/model.ckpt-100; None without one.
        exports: the folders of the SavedModels, those of export/best before those of export/final.
        exit_code: of the command.
        restarts: of the cluster, when a task had failed.
    """

    model_dir: str
    step: int | None = None
    why: str | None = None
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    best: Mapping[str, float] = dataclasses.field(default_factory=dict)
    checkpoint: str | None = None
    exports: tuple[str, ...] = ()
    exit_code: int = 0
    restarts: int = 0


def read(model_dir: str, of_cluster: bool) -> Result:
    """The result of a run that has ended well.

    Args:
        of_cluster: report.json is of this run.

    Raises:
        RunFailed: nothing is there, or it cannot be read.
    """
    try:
        return _read(model_dir, of_cluster)
    except (UsageError, store.StoreError, OSError) as error:
        text = f'the training of {model_dir} is done, but its result cannot be read: {error}'
        raise RunFailed(_code_of(error), f'{text.removesuffix(".")}. The same call reads it again.') from error


def _code_of(error: Exception) -> int:
    if isinstance(error, OSError):
        return file_errors.exit_code(error.errno)
    return exit_codes.FILES_AWAY if isinstance(error, store.StoreUnavailable) else exit_codes.CANNOT_WRITE


def _read(model_dir: str, of_cluster: bool) -> Result:
    if not urls.is_url(model_dir):
        return _of_folder(model_dir, of_cluster)
    with local_copies.LocalCopies() as copies:
        result = _of_folder(copies.run(model_dir, '--model_dir', needs.of_result), of_cluster)
        return dataclasses.replace(
            result,
            model_dir=model_dir,
            checkpoint=result.checkpoint and copies.shown(result.checkpoint),
            exports=tuple(map(copies.shown, result.exports)),
        )


def _of_folder(model_dir: str, of_cluster: bool) -> Result:
    run = RunFolder(model_dir)
    training = run.training_status
    since = run.last_evaluation.get('since', 0)  # the lines before are of other data
    comparable = run.evaluation_lines[since if type(since) is int else 0 :]
    lines = [line for line in comparable if line.get('kind') == 'eval']
    restarts = run.report.get('restarts') if of_cluster else None
    return Result(
        model_dir=model_dir,
        step=training.step if training else None,
        why=training.why if training else None,
        metrics=_metrics(lines[-1]) if lines else {},
        best=_metrics(best(lines, str(run.config.get('best_metric', '')), str(run.config.get('best_mode', '')))),
        checkpoint=_checkpoint(model_dir),
        exports=tuple(
            os.path.join(model_dir, export.path) for export in run.exports if export.kind in ('best', 'final')
        ),
        restarts=restarts if type(restarts) is int else 0,
    )


def best(lines: Sequence[Mapping], metric: str, mode: str) -> Mapping:
    """The first line with the best value of a metric; {} where none has it. An untrained model is never the best, nor
    is one whose loss is not finite."""
    known = [line for line in lines if line.get('step') != 0 and metrics_log.may_be_best(line, metric)]
    if not known:
        return {}
    return (max if mode == 'max' else min)(known, key=lambda line: line[metric])


def _metrics(line: Mapping) -> dict[str, float]:
    metrics = {
        name: math.nan if value is None else value
        for name, value in line.items()
        if name not in metrics_log.NOT_METRICS
    }
    return {**metrics, 'global_step': line['step']} if 'step' in line else metrics


def _checkpoint(model_dir: str) -> str | None:
    try:
        return chosen_checkpoint.find(model_dir, None)[0]
    except (ValueError, OSError):  # there is none
        return None
