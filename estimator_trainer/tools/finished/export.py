"""`python -m estimator_trainer export`: a run's model_dir -> a SavedModel of a checkpoint, and its path on stdout."""

import dataclasses
import logging
import os

from estimator_trainer.config import urls
from estimator_trainer.config.declaration import REQUIRED
from estimator_trainer.errors import UsageError
from estimator_trainer.tools.finished import finished_run
from estimator_trainer.tools.finished.finished_run import of_data, of_run

USAGE = """\
usage: python -m estimator_trainer export --model_dir=FOLDER [--checkpoint_step=N] [--to=FOLDER]

Writes a SavedModel of a checkpoint of a run, and prints its path to stdout; everything else goes to
stderr. Job, params and data are those of config.json in the model_dir. Nothing is trained, and the
checkpoints and exports of the run stay as they are. --model_dir and --to may be in a store (s3://,
gs://, az://).
"""
_log = logging.getLogger('estimator_trainer')


@dataclasses.dataclass(frozen=True)
class ExportFlags:
    model_dir: str = of_run('', 'Folder of the run.', unset=REQUIRED)
    checkpoint_step: int | None = of_run(None, 'The step of the checkpoint.', least=0, unset='the newest one')
    to: str = of_run(
        '', 'Folder for the SavedModel, which is named by the time.', unset='export/step_N of the model_dir'
    )
    data_dir: str = of_data('', 'Folder of the data sets that TFDS has prepared.', unset="the run's")


def main(argv) -> int:
    """Runs the command line `argv`, without program name. The exit code: 0, USAGE, DAMAGED, NO_DATA, that of a file
    that cannot be read or written, or FAILED with the traceback of the job."""
    return finished_run.command(argv, 'export', USAGE, ExportFlags, _export)


def _export(values, here) -> str:
    with finished_run.taken_up(values, here, only_evaluates=False) as found:
        from estimator_trainer.evaluation import exporters, serving_inputs

        serving_input_fn = serving_inputs.serving_input_fn_of(found.job, found.params, found.dataset)
        if serving_input_fn is None:
            raise UsageError(
                f'--model_dir={values.model_dir}: its job has no serving_input_fn, which says what a SavedModel takes; '
                'give the job one (docs/jobs.md).'
            )
        folder = _folder(values, found.step, here)
        exports = exporters.InOwnFolder(found.evaluator)
        path = exports.export_saved_model(folder, serving_input_fn, checkpoint_path=found.prefix)
        here.send()
    path = here.shown(os.fsdecode(path))
    _log.info('export: step %d: %s', found.step, path)
    return path


def _folder(values, step: int, here) -> str:
    to = values.to or os.path.join(values.model_dir, 'export', f'step_{step}')
    return here.folder(to, '--to') if urls.is_url(to) else os.path.abspath(os.path.expanduser(to))
