"""An Estimator's model_dir becomes Keras's: checkpoint, SavedModel and `.keras` file."""

import os

import numpy as np
import tensorflow as tf

from estimator_trainer.compat import quiet
from estimator_trainer.tools.migrate import archive, keras_files, predictions, variable_names, weights

SAVED_MODEL, ARCHIVE = 'saved_model', 'model.keras'
_POWER_TOLERANCE = 1e-4  # of a power that was multiplied on another machine


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

    written = keras_files.write(to, keras)
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
        made = archive.write(keras.model, run.features, os.path.join(to, ARCHIVE), keras_python)
        report['keras'] = {'version': made.version, 'is_keras_3': made.is_keras_3}
        differences[ARCHIVE] = predictions.largest_difference(
            _as_list(keras.model(run.features, training=False)), made.predictions
        )
    except archive.ArchiveError as error:
        report['no_archive'] = str(error)
    return report


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
