"""The way back: a Keras loop's model_dir becomes one that `--loop=estimator` goes on from."""

from estimator_trainer.tools.migrate import keras_files, predictions, variable_names, weights


def migrate(run, checkpoint: str, to: str, allowed) -> dict:
    """Writes an Estimator's checkpoint into the folder `to`, which is there.

    Args and Returns: as `to_keras.migrate`.
    """
    keras = weights.keras_job(run.job, run.params, run.features)
    source = {name: array.shape for name, array in weights.from_keras(checkpoint).items()}
    # No checkpoint of Keras holds the powers: the step gives them.
    computed = {pair.keras: () for pair in keras.pairs if pair.kind == variable_names.POWER}
    lines = variable_names.match(keras.pairs, {**source, **computed}, 'keras')
    if variable_names.refused(lines, allowed):
        return {'lines': lines, 'step': None}
    keras_files.restore(checkpoint, keras)
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
