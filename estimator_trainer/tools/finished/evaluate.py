"""`python -m estimator_trainer evaluate`: a run's model_dir -> the metrics of a checkpoint, as JSON on stdout."""

import dataclasses
import logging

from estimator_trainer.config.declaration import REQUIRED
from estimator_trainer.data.files import FORMATS
from estimator_trainer.errors import NoBatch
from estimator_trainer.evaluation import evaluation_journal
from estimator_trainer.run_dir import metrics_log
from estimator_trainer.tools.finished import finished_run
from estimator_trainer.tools.finished.finished_run import of_data, of_run

USAGE = """\
usage: python -m estimator_trainer evaluate --model_dir=FOLDER [--checkpoint_step=N] [--eval_files=GLOB]

Evaluates a checkpoint of a run, and prints its metrics and its global_step as one JSON object to
stdout; everything else goes to stderr. Job, params and data are those of config.json in the model_dir,
unless a flag names others. Nothing is trained, and the run stays as it is. --model_dir may be in a
store (s3://, gs://, az://).
"""
_log = logging.getLogger('estimator_trainer')


@dataclasses.dataclass(frozen=True)
class EvaluateFlags:
    model_dir: str = of_run('', 'Folder of the run.', unset=REQUIRED)
    checkpoint_step: int | None = of_run(None, 'The step of the checkpoint.', least=0, unset='the newest one')
    eval_files: str = of_data('', 'Files to evaluate on, as those of the trainer.', unset="the run's")
    file_format: str = of_data('', 'Format of the files.', choices=('', *FORMATS), unset="the run's")
    dataset: str = of_data('', 'A data set, as that of the trainer.', unset="the run's")
    data_dir: str = of_data('', 'Folder of the data sets that TFDS has prepared.', unset="the run's")
    batch_size: int | None = of_data(None, 'Examples that the model gets at once.', least=1, unset="the run's")
    eval_steps: int | None = of_data(None, 'Batches of the evaluation.', least=1, unset="the run's")


def main(argv) -> int:
    """Runs the command line `argv`, without program name. The exit code: 0, USAGE, DAMAGED, NO_DATA, that of a file
    that cannot be read, or FAILED with the traceback of the job."""
    return finished_run.command(argv, 'evaluate', USAGE, EvaluateFlags, _evaluate)


def _evaluate(values, copies) -> dict:
    with finished_run.taken_up(values, copies, only_evaluates=True) as run:
        _log.info('evaluation of %s', copies.shown(run.prefix))
        metrics = dict(run.evaluator.evaluate(run.prefix))
    if run.progress.is_empty:
        raise NoBatch(evaluation_journal.NO_EXAMPLES)
    step = int(metrics.pop('global_step'))
    _log.info('evaluation at step %d: %s', step, metrics_log.in_words(metrics))
    if warning := metrics_log.warning(step, metrics):
        _log.warning('%s', warning)
    return {**{name: metrics_log.plain(value) for name, value in sorted(metrics.items())}, 'global_step': step}
