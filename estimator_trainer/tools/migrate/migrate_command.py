"""`python -m estimator_trainer migrate`: argv -> files, a report and an exit code."""

import contextlib
import dataclasses
import functools
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from estimator_trainer import exit_codes, jobs
from estimator_trainer.config import flags, job_flags
from estimator_trainer.config.declaration import REQUIRED, flag
from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import file_names, protocol, removal
from estimator_trainer.storage import needs
from estimator_trainer.tools import command_line, local_copies
from estimator_trainer.tools.migrate import loaded_run as runs
from estimator_trainer.tools.migrate import variable_names
from estimator_trainer.tools.migrate.canned import canned_migration as canned

USAGE = """\
usage: python -m estimator_trainer migrate --model_dir=FOLDER --to=FOLDER [--from_keras]
       python -m estimator_trainer migrate --program=FILE.py:FUNCTION --input_fn=FUNCTION --to=FOLDER

Turns the newest checkpoint of an Estimator's run, with its optimizer's slots and its step, into
a folder that --loop=keras_fit and --loop=custom_loop go on from: the checkpoint, saved_model/ and
model.keras. With --from_keras it goes the other way. config.json in the model_dir names the job.

A canned Estimator (linear, DNN, both together, baseline), of a job's make_estimator or of any program,
becomes a model of Keras 3 that predicts, evaluates and trains on as it did: model.keras, serving.keras,
saved_model/ with its signatures, and the Python modules that they need, which are yours from then on.
--model_dir and --to may be in a store (s3://, gs://, az://).
"""
REPORT = 'migrate.json'
TOLERANCE = 1e-6  # of predictions, as predictions.largest_difference measures


def main(argv) -> int:
    """Runs the command line `argv`, without program name. The exit code: 0, FAILED where a variable is
    unmatched and not allowed or the predictions differ, USAGE, DAMAGED, NO_DATA, or that of a file which
    cannot be read now."""
    return command_line.run(
        argv,
        USAGE,
        MigrateFlags,
        lambda: _migrate(flags.parse_with_folder(MigrateFlags, ['migrate', *argv])),
        {jobs.JobError: exit_codes.USAGE},
    )


_folders = functools.partial(flag, group='Folders')
_how = functools.partial(flag, group='How')
_canned = functools.partial(flag, group='A canned Estimator of a program', unset='none')


@dataclasses.dataclass(frozen=True)
class MigrateFlags:
    model_dir: str = _folders('', 'Folder of the run to migrate.', unset="with --program the Estimator's")
    to: str = _folders('', 'Folder for the result: a new or an empty one.', unset=REQUIRED)
    data_dir: str = _folders('', 'Folder of the data sets that TFDS has prepared.', unset="the run's")
    program: str = _canned(
        '', 'FILE.py:FUNCTION that takes nothing and gives a canned Estimator; the file is imported, not run.'
    )
    input_fn: str = _canned(
        '', 'A function of that file that takes nothing and gives a tf.data.Dataset of features and labels.'
    )
    loop: str = _how(
        'keras_fit',
        'The loop that goes on from the result. The files are the same for each of them.',
        choices=tuple(loop for loop in job_flags.LOOPS if loop != 'estimator'),
    )
    from_keras: bool = _how(False, "Turn a checkpoint of keras_fit or custom_loop into an Estimator's.")
    allow_unmatched: tuple = _how(
        (), 'A variable that need not match, by its name in the table. Repeatable.', repeated=True
    )
    keras_file: bool = _how(True, 'Write model.keras.')
    keras_python: str = _how('', 'The interpreter whose Keras writes model.keras.', unset='this one')


def _migrate(values) -> int:
    if not values.model_dir and not values.program:
        raise UsageError('--model_dir is missing: name a folder, or a --program.')
    if not values.to:
        raise UsageError('--to is missing: name a folder.')
    if values.program and values.from_keras:
        raise UsageError('--from_keras takes the folder that migrate has made, as --model_dir, and no --program.')
    with local_copies.LocalCopies() as here:
        to = os.path.expanduser(here.folder(values.to, '--to'))
        if not here.is_empty(to, REPORT):  # which a refusal has left
            raise UsageError(f'--to={to}: is not empty; name a new folder.')
        model_dir = os.path.expanduser(here.run(values.model_dir, '--model_dir', needs.of_newest_checkpoint))
        code = _in_folders(values, model_dir, to, here.shown)
        here.send()
    return code


def _in_folders(values, model_dir: str, to: str, shown: Callable[[Any], Any]) -> int:
    """`shown`: of LocalCopies."""
    if not values.program and not (values.from_keras and canned.is_result(model_dir)):
        _refuse_foreign_run(model_dir, shown)
        runs.read_config(model_dir)  # before TensorFlow is imported
    with _filled(to):
        from estimator_trainer import compat

        compat.bring_up()
        from estimator_trainer.errors import DatasetError
        from estimator_trainer.run_dir import checkpoint_errors, file_errors

        try:
            return _with_tensorflow(values, model_dir, to, shown)
        except DatasetError as error:
            print(f'error: {error}', file=sys.stderr)
            return error.exit_code
        except checkpoint_errors.CannotReadCheckpoint as error:
            print(
                f'error: {shown(error.filename)} cannot be read ({error.strerror}); {file_errors.cure(error.errno)}',
                file=sys.stderr,
            )
            return file_errors.exit_code(error.errno)


@contextlib.contextmanager
def _filled(to: str) -> Iterator[None]:
    """Makes the folder. Folders that were made here and are empty in the end go again.

    Raises:
        UsageError: it cannot be made.
    """
    made, path = [], os.path.abspath(to)
    while not os.path.lexists(path):
        made.append(path)
        path = os.path.dirname(path)
    try:
        os.makedirs(to, exist_ok=True)
    except OSError as error:
        raise UsageError(f'--to={to}: {error.strerror}; name another folder.') from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # there is something in it
            for path in made:
                removal.empty_folder(path, removal.Written(made))


def _refuse_foreign_run(model_dir: str, shown: Callable[[Any], Any]) -> None:
    if os.path.isdir(model_dir) and not os.path.exists(os.path.join(model_dir, file_names.CONFIG)):
        name = shown(model_dir)
        raise UsageError(
            f'--model_dir={name}: has no {file_names.CONFIG}, so it is of no run of this trainer. For a canned '
            'Estimator of another program give --program=FILE.py:FUNCTION as well, which makes the Estimator, and '
            '--input_fn=FUNCTION of the same file; '
            f'`python -m estimator_trainer inspect {name}` says what it is.'
        )


def _with_tensorflow(values, model_dir, to, shown) -> int:
    from estimator_trainer.run_dir import checkpoints, config_file
    from estimator_trainer.tools.migrate import to_keras
    from estimator_trainer.tools.migrate.canned import estimator_sources

    os.environ.pop('TF_CONFIG', None)  # an Estimator would wait for the other tasks that it names
    if values.program:
        source = estimator_sources.of_program(values.program, values.input_fn, model_dir)
        damaged = _damaged(source.checkpoint, model_dir, False, shown)
        return damaged or canned.migrate(source, to, values.keras_python, shown)
    if values.from_keras and canned.is_result(model_dir):
        return canned.migrate_back(model_dir, to, values.keras_python, shown)
    checkpoint = checkpoints.latest(model_dir)
    if checkpoint is None:
        raise UsageError(f'--model_dir={model_dir}: holds no checkpoint.')
    damaged = _damaged(checkpoint, model_dir, values.from_keras, shown)
    if damaged:
        return damaged
    run = runs.load(model_dir, checkpoints.step_of(checkpoint), values.data_dir)
    if run.job.make_model is None:
        return canned.migrate(estimator_sources.of_run(run, checkpoint), to, values.keras_python, shown)
    try:
        if values.from_keras:
            report = to_keras.migrate_back(run, checkpoint, to, values.allow_unmatched)
        else:
            report = to_keras.migrate(
                run, checkpoint, to, values.allow_unmatched, values.keras_file, values.keras_python
            )
    except ValueError as error:  # a job that has no equal in the other world
        raise UsageError(f'--model_dir={model_dir}: job {run.config["job"]}: {error}') from error
    if 'differences' in report:
        loop = 'estimator' if values.from_keras else values.loop
        protocol.write_json(os.path.join(to, file_names.CONFIG), runs.config_for(run.config, loop))
        if run.config['job'] == config_file.JOB_FILE:
            config_file.keep_job(to, config_file.job_of(model_dir, run.config))
    return _tell(report, checkpoint, to, values.allow_unmatched, shown)


def _damaged(checkpoint, model_dir, from_keras, shown) -> int:
    """Prints an error and returns DAMAGED if the checkpoint is damaged, else returns 0. Raises UsageError if it is of
    the other kind of loop."""
    from estimator_trainer.run_dir import checkpoints

    problem = checkpoints.damage(checkpoint)
    if problem:
        print(f'error: {shown(checkpoint)} cannot be read ({problem})', file=sys.stderr)
        return exit_codes.DAMAGED
    if checkpoints.is_of_objects(checkpoint) != from_keras:
        raise UsageError(
            f'--model_dir={model_dir or os.path.dirname(checkpoint)}: its checkpoint is '
            + (
                "an Estimator's: leave --from_keras away."
                if from_keras
                else "a Keras loop's: --from_keras makes an Estimator's of it."
            )
        )
    return 0


def _tell(report, checkpoint, to, allowed, shown) -> int:
    lines = report['lines']
    refused = variable_names.refused(lines, allowed)
    print(variable_names.table(lines))
    matched = sum(line.matched for line in lines)
    print(f'{matched} of {len(lines)} variables matched')
    ok = not refused and 'no_archive' not in report
    if refused:
        print(
            'error: nothing was written: '
            + '; '.join(f'{line.name}: {line.status}' for line in refused)
            + '. --allow_unmatched=NAME lets one pass.',
            file=sys.stderr,
        )
    for what, difference in report.get('differences', {}).items():
        print(f'predictions: {what} differs by {difference:.1e} at most')
        if not difference <= TOLERANCE:
            ok = False
            print(f'error: that is not within {TOLERANCE:g}', file=sys.stderr)
    for line in _about_the_archive(report):
        print(line)
    protocol.write_json(
        os.path.join(to, REPORT),
        shown(
            {
                **report,
                'from': checkpoint,
                'allowed': list(allowed),
                'ok': ok,
                'lines': [dataclasses.asdict(line) for line in lines],
            }
        ),
    )
    if ok:
        print(f'step {report["step"]}: {shown(to)}')
    return exit_codes.OK if ok else exit_codes.FAILED


def _about_the_archive(report):
    if 'no_archive' in report:
        yield f'no model.keras: {report["no_archive"]} --nokeras_file does without.'
    elif 'keras' in report:
        version = report['keras']['version']
        yield f'model.keras: written and opened again by Keras {version}'
        if not report['keras']['is_keras_3']:
            yield (
                'model.keras is in the form of Keras 2, which Keras 3 may not open; '
                '--keras_python=PYTHON names an interpreter that has Keras 3'
            )
