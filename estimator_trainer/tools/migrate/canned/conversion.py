"""A canned Estimator and its checkpoint become Keras 3's files, which are compared with the Estimator."""

import json
import os
import shutil
import sys
import tempfile
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_trainer.compat import owned, quiet
from estimator_trainer.tools.migrate.canned import (
    back,
    columns,
    dataset_file,
    describe,
    programs,
    readme,
    record,
    recover,
)
from estimator_trainer.tools.migrate.canned.checkpoint_reader import CheckpointReader
from estimator_trainer.tools.migrate.canned.in_keras_3 import differences, tensors
from estimator_trainer.tools.migrate.canned.programs import CannotMigrate

STEPS = 10  # that both take after the checkpoint
_EVAL_BATCHES = 20


class CannedEstimator(NamedTuple):
    """What is migrated.

    Attributes:
        estimator: a canned one, or one whose model_fn calls one.
        train_input_fn, eval_input_fn: () -> tf.data.Dataset of (features, labels).
        checkpoint: its prefix.
    """

    estimator: Any
    train_input_fn: Any
    eval_input_fn: Any
    checkpoint: str


def migrate(source: CannedEstimator, to: str, keras_python: str) -> dict:
    """Writes model.keras, serving.keras, saved_model and the modules that they need into the folder `to`.

    Args:
        to: an empty folder.
        keras_python: an interpreter that has Keras 3; '' for this one.

    Returns:
        The report: `step`, `differences` {what: greatest difference; None where nothing is compared}, `variables`,
        `left_over`, `metrics_left_out`, `keras`.

    Raises:
        CannotMigrate: a part of the Estimator has no equal, its data cannot be read, or Keras 3 is not there.
    """
    python = keras_python or sys.executable
    programs.check_keras(python)
    with tempfile.TemporaryDirectory(prefix='migrate-') as work:
        try:
            description, checkpoint = _record(source, work)
        except columns.Unsupported as error:
            raise CannotMigrate(f'{error} has no equal that migrate knows') from error
        except (recover.NotCanned, ValueError) as error:
            raise CannotMigrate(str(error)) from error
        except tf.errors.OpError as error:
            raise CannotMigrate(f'it does not compute from {source.checkpoint}: {_last_line(error)}') from error
        result = os.path.join(work, 'result')  # a refusal leaves nothing in `to`
        os.makedirs(result)
        for name in owned.FILES:
            shutil.copy(os.path.join(owned.FOLDER, name), result)
        with open(os.path.join(result, 'dataset.py'), 'w', encoding='utf-8') as file:
            file.write(dataset_file.text(description))
        built = programs.run(python, 'build.py', work, result)
        with open(os.path.join(result, readme.NAME), 'w', encoding='utf-8') as file:
            file.write(readme.text(description['function'], description['step'], built['keras']))
        back.keep(result, description, checkpoint)
        reloaded = programs.run(python, 'reload.py', work, result)
        shutil.copytree(result, to, dirs_exist_ok=True)
    details = {name: built[name] for name in ('predictions', 'evaluation', 'steps')}
    return {
        'kind': description['function'],
        'step': description['step'],
        'keras': built['keras'],
        'differences': {name: differences.greatest(found or {}) for name, found in details.items()},
        'reloaded': reloaded['differences'],
        'details': details,
        'variables': sorted(checkpoint.used),
        'left_over': sorted(set(checkpoint.shapes) - checkpoint.used),
        'metrics_left_out': sorted(set(description['metrics']) - set(built['evaluation']) - {'loss'}),
    }


def _record(source, work):
    """Fills the folder `work`. (description, CheckpointReader)."""
    train, spec = record.batches(source.train_input_fn, STEPS)
    evaluation, _ = record.batches(source.eval_input_fn, _EVAL_BATCHES)
    features, _ = record.specs(train + evaluation, spec)
    description = describe.description(source.estimator, *train[0], features)
    checkpoint = CheckpointReader(source.checkpoint)
    description |= {'step': checkpoint.step, 'more_steps': len(train)}
    _save_numbers(checkpoint, description, work, '')
    with quiet.only_errors():
        estimator = record.moved(source.estimator, os.path.join(work, 'model_dir'), source.checkpoint)
        predictions = record.predictions(estimator, evaluation, source.checkpoint)
        description['metrics'] = record.metrics(estimator, evaluation, source.checkpoint)
        after = record.train(estimator, train)
    _save_numbers(CheckpointReader(after), description, work, '_after')
    tensors.save(os.path.join(work, 'predictions.npz'), predictions)
    for name, batches in (('train', train), ('eval', evaluation)):
        tensors.save(os.path.join(work, f'{name}.npz'), _flat(batches))
    with open(os.path.join(work, 'description.json'), 'w', encoding='utf-8') as file:
        json.dump(description, file)
    return description, checkpoint


def _last_line(error) -> str:
    """Of what is said before the message tells of the operations of the graph."""
    said = error.message.partition('\n\nOriginal stack trace')[0].partition('Errors may have originated')[0]
    return next(iter([line for line in said.splitlines() if line.strip()][-1:]), type(error).__name__)


def _save_numbers(checkpoint, description, work, suffix):
    try:
        weights = {name: checkpoint.variable(name) for name in describe.variables(description)}
        _check_shapes(checkpoint.prefix, weights, description['shapes'])
        slots = {}
        for number, one in enumerate(description['optimizers']):
            for slot, name in one['slots'].items():
                slots |= {f'{variable}@{slot}': checkpoint.slot(variable, name) for variable in one['variables']}
            slots |= {f'{number}@{scalar}': checkpoint.scalar(name) for scalar, name in one['scalars'].items()}
    except KeyError as error:
        raise CannotMigrate(f'{checkpoint.prefix} has no {error.args[0]}: it is of another model') from error
    tensors.save(os.path.join(work, f'weights{suffix}.npz'), weights)
    tensors.save(os.path.join(work, f'slots{suffix}.npz'), slots)


def _check_shapes(prefix, weights, expected):
    for name, shape in expected.items():  # TensorFlow takes a variable of another shape
        if list(weights[name].shape) != shape:
            raise CannotMigrate(
                f'{prefix} is of another model: {name} has the shape {list(weights[name].shape)} there, and {shape} in '
                'the Estimator. Give it the arguments with which it was trained'
            )


def _flat(batches) -> dict:
    found = {}
    for number, (features, labels) in enumerate(batches):
        found |= {f'{number}/features/{name}': value for name, value in features.items()}
        found[f'{number}/labels/'] = labels
    return found
