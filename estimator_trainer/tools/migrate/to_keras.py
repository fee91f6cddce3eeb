"""An Estimator's model_dir becomes Keras's: checkpoint, SavedModel and `.keras` file. `migrate_back` undoes it."""

import os
import sys
import tempfile
import warnings
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from estimator_trainer.compat import quiet
from estimator_trainer.tools.migrate import other_keras, predictions, variable_names, weights

SAVED_MODEL, ARCHIVE = 'saved_model', 'model.keras'
_SCRIPT = os.path.join(os.path.dirname(__file__), 'in_another_keras.py')
_ARCHIVE_SECS = 300
_POWER_TOLERANCE = 1e-4  # of a power that was multiplied on another machine


class _ArchiveError(ValueError):
    """The model cannot be written as a `.keras` file. The message says why."""


class _Archive(NamedTuple):
    """A `.keras` file: the Keras that wrote it, and what it predicts once opened again: one array for
    each output, those of a dict by name."""

    version: str
    is_keras_3: bool
    predictions: list


def migrate(run, checkpoint: str, to: str, allowed, keras_file: bool, keras_python: str) -> dict:
    """Writes Keras's files into the folder `to`, which is there.

    Args:
        run: migrate.loaded_run.LoadedRun.
        checkpoint: prefix of the Estimator's checkpoint.
        allowed: names that need not match.
        keras_file: whether to write the `.keras` file.
        keras_python: an interpreter for it; '' for this one.

    Returns:
        The report, with `lines` of the variables; without `differences` where something is unmatched
        that nobody has allowed, and nothing was written.
    """
    source = weights.from_estimator(checkpoint)
    # First of all: a Keras model in a graph of TF 1 breaks those that were made before it.
    predicted = predictions.of_estimator(run.job, run.params, checkpoint, run.features)
    keras = weights.keras_job(run.job, run.params, run.features)
    lines = variable_names.match(keras.pairs, {name: array.shape for name, array in source.items()}, 'estimator')
    keras.optimizer.iterations.assign(source['global_step'])
    lines = _with_powers(lines, source, weights.powers(keras))
    if variable_names.refused(lines, allowed):
        return {'lines': lines, 'step': keras.step}
    for line in lines:
        if line.matched and line.kind in (variable_names.WEIGHT, variable_names.SLOT):
            keras.variables[line.keras].assign(source[line.estimator])

    written = weights.write_keras(to, keras)
    folder = os.path.join(to, SAVED_MODEL)
    with quiet.only_errors():  # that the model is not compiled
        predictions.write_saved_model(run.job, keras.model, run.features, folder)
    report = {'lines': lines, 'step': keras.step, 'checkpoint': written}
    here = predictions.of_keras(run.job, keras.model, run.features)
    differences = {
        'Keras checkpoint': predictions.largest_difference(here, predicted),
        SAVED_MODEL: predictions.largest_difference(here, predictions.of_saved_model(folder, run.features)),
    }
    report['differences'] = differences
    if not keras_file:
        return report
    try:
        made = _write_archive(keras.model, run.features, os.path.join(to, ARCHIVE), keras_python)
        report['keras'] = {'version': made.version, 'is_keras_3': made.is_keras_3}
        differences[ARCHIVE] = predictions.largest_difference(
            _as_list(keras.model(run.features, training=False)), made.predictions
        )
    except _ArchiveError as error:
        report['no_archive'] = str(error)
    return report


def migrate_back(run, checkpoint: str, to: str, allowed) -> dict:
    """Turns a Keras loop's model_dir into one that `--loop=estimator` goes on from. Args and Returns: as `migrate`."""
    keras = weights.keras_job(run.job, run.params, run.features)
    source = {name: array.shape for name, array in weights.from_keras(checkpoint).items()}
    # No checkpoint of Keras holds the powers: the step gives them.
    computed = {pair.keras: () for pair in keras.pairs if pair.kind == variable_names.POWER}
    lines = variable_names.match(keras.pairs, {**source, **computed}, 'keras')
    if variable_names.refused(lines, allowed):
        return {'lines': lines, 'step': None}
    weights.restore_keras(checkpoint, keras)
    written = weights.write_estimator(to, weights.for_estimator(keras), keras.step)
    step = keras.step
    here = predictions.of_keras(run.job, keras.model, run.features)
    # Last of all: a Keras model in a graph of TF 1 breaks those that were made before it.
    differences = {
        'Estimator checkpoint': predictions.largest_difference(
            here, predictions.of_estimator(run.job, run.params, written, run.features)
        )
    }
    return {'lines': lines, 'step': step, 'checkpoint': written, 'differences': differences}


def _with_powers(lines, source, powers) -> list:
    """Marks powers that are not those of the step: Keras would count the steps otherwise."""
    found = []
    for line in lines:
        if line.kind == variable_names.POWER and line.matched:
            there, belongs = float(source[line.estimator]), float(powers[line.estimator])
            if not np.isclose(there, belongs, rtol=_POWER_TOLERANCE, atol=1e-30):
                line = variable_names.VariableMatch(
                    line.estimator,
                    line.keras,
                    line.shape,
                    line.kind,
                    f'is {there:.6g}, and {belongs:.6g} belongs to the step',
                )
        found.append(line)
    return found


def _as_list(outputs) -> list:
    if isinstance(outputs, dict):
        outputs = [outputs[name] for name in sorted(outputs)]
    return [np.asarray(output) for output in tf.nest.flatten(outputs)]


def _write_archive(model, inputs, path: str, python: str = '') -> _Archive:
    """Writes `model` as a `.keras` file, by the Keras that a process without legacy Keras gets.

    Keras 2 (tf-keras) and Keras 3 do not read each other's `.keras` files: a class is stored with the path of its
    module. Both read the old HDF5 form, whose classes have plain names. So Keras 2 writes that, and a process of its
    own, in which Keras is what `import keras` gives, turns it into a `.keras` file, opens it again and predicts, so
    that the caller can compare.

    Args:
        model: a built Keras 2 model, Sequential or functional: a subclass has no description of
            itself that another Keras could read.
        inputs: what the written model predicts for: an array, or a dict of them.
        path: ends in `.keras`; is there whole or not at all.
        python: the interpreter whose `keras` writes it; '' for this one.

    Raises:
        _ArchiveError: Keras could not describe or rebuild the model, or took over 300 s.
    """
    inputs = inputs if isinstance(inputs, dict) else {'': inputs}
    with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as folder:
        weights, new, probe, answer = (
            os.path.join(folder, name) for name in ('model.h5', 'model.keras', 'probe.npz', 'answer.npz')
        )
        try:
            with quiet.only_errors(), warnings.catch_warnings():
                warnings.simplefilter('ignore')  # that HDF5 is an old form
                model.save(weights, save_format='h5', include_optimizer=False)
        except (NotImplementedError, ValueError, TypeError) as error:
            raise _ArchiveError(
                f'the model {model.name!r} cannot be described: {_first_line(error)}. '
                'A .keras file needs a Sequential or functional model.'
            ) from error
        np.savez(probe, **{name: np.asarray(value) for name, value in inputs.items()})
        try:
            said = other_keras.run([python or sys.executable, _SCRIPT, weights, new, probe, answer], _ARCHIVE_SECS)
        except other_keras.Failed as error:
            raise _ArchiveError(f'Keras cannot rebuild the model: {error}.') from error
        with np.load(answer) as found:
            predictions = [found[name] for name in found.files]
        os.replace(new, path)
    return _Archive(said['version'], said['is_keras_3'], predictions)


def _first_line(error) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip('.')
