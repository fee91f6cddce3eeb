"""What the same model predicts in each of its forms: Estimator's checkpoint, Keras, SavedModel."""

import numpy as np
import tensorflow as tf

from estimator_trainer.jobs import input_fns


def of_estimator(job, params, checkpoint: str, features) -> dict:
    """The predictions of the job's model_fn, as `Estimator.predict` has them.

    Args:
        features: one batch, as arrays.

    Returns:
        Name -> array.
    """
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.train.create_global_step()
        given = tf.nest.map_structure(tf.constant, features)
        config = tf.estimator.RunConfig()
        asked = dict(labels=None, mode=tf.estimator.ModeKeys.PREDICT, params=dict(params), config=config)
        spec = job.model_fn(given, **input_fns.taken(job.model_fn, asked))
        tf.compat.v1.train.Saver().restore(session, checkpoint)
        return session.run(spec.predictions)


def of_keras(job, model, features) -> dict:
    """Name -> array, from a Keras model in memory."""
    found = job.parts.predictions(model(features, training=False))
    return {name: value.numpy() for name, value in found.items()}


def write_saved_model(job, model, features, folder: str) -> None:
    """Writes a SavedModel whose signature `serving_default` takes the features by name, in batches of
    any size, and gives `parts.predictions`. tf.keras opens it as a model."""
    by_name = features if isinstance(features, dict) else {'features': features}

    @tf.function(
        input_signature=[
            {name: tf.TensorSpec([None, *array.shape[1:]], array.dtype, name) for name, array in by_name.items()}
        ]
    )
    def serve(given):
        return job.parts.predictions(model(given if isinstance(features, dict) else given['features'], training=False))

    model.save(folder, save_format='tf', include_optimizer=False, signatures={'serving_default': serve})


def of_saved_model(folder: str, features) -> dict:
    """Name -> array, from the signature `serving_default` of a SavedModel."""
    by_name = features if isinstance(features, dict) else {'features': features}
    serve = tf.saved_model.load(folder).signatures['serving_default']
    return {
        name: value.numpy()
        for name, value in serve(**{name: tf.constant(array) for name, array in by_name.items()}).items()
    }


def largest_difference(ones, others) -> float:
    """Of two dicts of arrays, or two lists; infinite where they are not of the same form. It is relative to the largest
    number of an array if that is above 1, as kernels round by the size of what they compute."""
    if isinstance(ones, dict):
        if ones.keys() != others.keys():
            return np.inf
        ones, others = ([found[name] for name in sorted(found)] for found in (ones, others))
    if len(ones) != len(others) or any(one.shape != other.shape for one, other in zip(ones, others)):
        return np.inf
    apart = [_difference(np.asarray(one), np.asarray(other)) for one, other in zip(ones, others)]
    return float(np.max(apart, initial=0.0))  # which is NaN if one of them is: Python's max would leave it out


def _difference(one: np.ndarray, other: np.ndarray) -> float:
    if one.dtype.kind in 'OSU':  # strings, such as the names of classes
        return 0.0 if np.array_equal(one, other) else np.inf
    one = one.astype(np.float64)
    return float(np.max(np.abs(one - other), initial=0) / np.max(np.abs(one), initial=1))
