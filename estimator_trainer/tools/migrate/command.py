"""`python -m estimator_trainer migrate`: argv -> files, a report and an exit code."""

import dataclasses
import functools
import os
import sys

from estimator_trainer import exit_codes, flags, jobs
from estimator_trainer.errors import UsageError
from estimator_trainer.flags import flag
from estimator_trainer.run_dir import protocol
from estimator_trainer.tools.migrate import names
from estimator_trainer.tools.migrate import run as runs

USAGE = """\
usage: python -m estimator_trainer migrate --model_dir=FOLDER --to=FOLDER [--from_keras]

Turns the newest checkpoint of an Estimator's run, with its optimizer's slots and its step, into
a folder that --loop=keras_fit and --loop=custom_loop go on from: the checkpoint, saved_model/ and
model.keras. With --from_keras it goes the other way. config.json in the model_dir names the job.
"""
REPORT = 'migrate.json'
TOLERANCE = 1e-6  # of predictions, absolute


def main(argv) -> int:
    """Runs the command line `argv`, without program name. The exit code: 0, FAILED where a variable is
    unmatched and not allowed or the predictions differ, USAGE, DAMAGED, NO_DATA, or that of a file which
    cannot be read now."""
    if flags.wants_help(argv):
        print(f'{USAGE}\n{flags.help_text(MigrateFlags)}')
        return exit_codes.OK
    try:
        return _migrate(flags.parse(MigrateFlags, ['migrate', *argv]))
    except (UsageError, jobs.JobError) as error:
        print(f'error: {error}', file=sys.stderr)
        return exit_codes.USAGE


_folders = functools.partial(flag, group='Folders')
_how = functools.partial(flag, group='How')


@dataclasses.dataclass(frozen=True)
class MigrateFlags:
    model_dir: str = _folders('', 'Folder of the run to migrate.', unset=flags.REQUIRED)
    to: str = _folders('', 'Folder for the result: a new or an empty one.', unset=flags.REQUIRED)
    data_dir: str = _folders('', 'Folder of the data sets that TFDS has prepared.', unset="the run's")
    loop: str = _how(
        'keras_fit',
        'The loop that goes on from the result. The files of both are the same.',
        choices=('keras_fit', 'custom_loop'),
    )
    from_keras: bool = _how(False, "Turn a checkpoint of keras_fit or custom_loop into an Estimator's.")
    allow_unmatched: tuple = _how(
        (), 'A variable that need not match, by its name in the table. Repeatable.', repeated=True
    )
    keras_file: bool = _how(True, 'Write model.keras.')
    keras_python: str = _how('', 'The interpreter whose Keras writes model.keras.', unset='this one')


def _migrate(values) -> int:
    model_dir, to = (os.path.expanduser(getattr(values, name)) for name in ('model_dir', 'to'))
    for name, folder in (('model_dir', model_dir), ('to', to)):
        if not folder:
            raise UsageError(f'--{name} is missing: name a folder.')
    runs.read_config(model_dir)  # before TensorFlow is imported
    if os.path.isdir(to) and set(os.listdir(to)) - {REPORT}:  # of a refusal before
        raise UsageError(f'--to={to}: is not empty; name a new folder.')
    try:
        os.makedirs(to, exist_ok=True)
    except OSError as error:
        raise UsageError(f'--to={to}: {error.strerror}; name another folder.') from error

    from estimator_trainer import compat

    compat.bring_up()
    from estimator_trainer.data.sources import DatasetError
    from estimator_trainer.run_dir import checkpoints, file_errors

    try:
        return _with_tensorflow(values, model_dir, to)
    except DatasetError as error:
        print(f'error: {error}', file=sys.stderr)
        return exit_codes.NO_DATA
    except checkpoints.CannotRead as error:
        print(
            f'error: {error.filename} cannot be read ({error.strerror}); {file_errors.cure(error.errno)}',
            file=sys.stderr,
        )
        return file_errors.exit_code(error.errno)


def _with_tensorflow(values, model_dir, to) -> int:
    from estimator_trainer.run_dir import checkpoints
    from estimator_trainer.tools.migrate import to_estimator, to_keras

    checkpoint = checkpoints.latest(model_dir)
    if checkpoint is None:
        raise UsageError(f'--model_dir={model_dir}: holds no checkpoint.')
    problem = checkpoints.damage(checkpoint)
    if problem:
        print(f'error: {checkpoint} cannot be read ({problem})', file=sys.stderr)
        return exit_codes.DAMAGED
    if checkpoints.is_of_objects(checkpoint) != values.from_keras:
        raise UsageError(
            f'--model_dir={model_dir}: its checkpoint is '
            + (
                "an Estimator's: leave --from_keras away."
                if values.from_keras
                else "a Keras loop's: --from_keras makes an Estimator's of it."
            )
        )
    run = runs.load(model_dir, checkpoints.step_of(checkpoint), values.data_dir)
    try:
        if values.from_keras:
            report = to_estimator.migrate(run, checkpoint, to, values.allow_unmatched)
        else:
            report = to_keras.migrate(
                run, checkpoint, to, values.allow_unmatched, values.keras_file, values.keras_python
            )
    except ValueError as error:  # of the companion: a job that has no equal in the other world
        raise UsageError(f'--model_dir={model_dir}: job {run.config["job"]}: {error}') from error
    if 'differences' in report:
        loop = 'estimator' if values.from_keras else values.loop
        protocol.write_json(os.path.join(to, runs.CONFIG), runs.config_for(run.config, loop))
    return _tell(report, checkpoint, to, values.allow_unmatched)


def _tell(report, checkpoint, to, allowed) -> int:
    lines = report['lines']
    refused = names.refused(lines, allowed)
    print(names.table(lines))
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
            print(f'error: that is more than {TOLERANCE:g}', file=sys.stderr)
    for line in _about_the_archive(report):
        print(line)
    protocol.write_json(
        os.path.join(to, REPORT),
        {
            **report,
            'from': checkpoint,
            'allowed': list(allowed),
            'ok': ok,
            'lines': [dataclasses.asdict(line) for line in lines],
        },
    )
    if ok:
        print(f'step {report["step"]}: {to}')
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
