"""Gives an export of an Estimator the signature `serving_default`, which servers and `tf.saved_model` callers ask for.

The heads of Estimators give this name to the signature of their classification or regression, which takes serialized
tf.Examples in one string tensor. If the serving_input_fn takes raw tensors, TensorFlow leaves that signature out and
warns. Then this module makes `serving_default` the same as `predict`, or as another prediction of the model_fn. If the
model_fn has no prediction, `serving_default` gives the tensors of the classification or regression. All other
signatures keep their names and contents.
"""

import logging

import tensorflow as tf

from estimator_trainer.compat.patches import estimators

_log = logging.getLogger('estimator_trainer')
DEFAULT = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
_PREDICT = 'predict'


def exporting(estimator):
    """`estimator.export_saved_model`, with such a signature."""

    def export_saved_model(*args, **kwargs):
        with estimators.export_outputs_completed(completed):
            return estimator.export_saved_model(*args, **kwargs)

    return export_saved_model


def completed(receiver_tensors, export_outputs) -> dict:
    """The outputs of an export, with one for `serving_default` that these receivers can have.

    If there is none, one line says why.
    """
    why = _refused(export_outputs.get(DEFAULT), receiver_tensors)
    if why is None:
        return export_outputs
    names = [_PREDICT, *(name for name in export_outputs if name not in (_PREDICT, DEFAULT))]
    for name in names:
        output = export_outputs.get(name)
        if isinstance(output, tf.estimator.export.PredictOutput) and _refused(output, receiver_tensors) is None:
            return {**export_outputs, DEFAULT: output}
    given = _as_prediction(export_outputs.get(DEFAULT))
    if given:
        return {**export_outputs, DEFAULT: tf.estimator.export.PredictOutput(given)}
    _log.warning('WARNING: the export has no signature %s: %s', DEFAULT, why)
    return export_outputs


def _as_prediction(output) -> dict:
    """The tensors of a classification or regression, under the names that its signature has."""
    if isinstance(output, tf.estimator.export.RegressionOutput):
        return {'outputs': output.value}
    if isinstance(output, tf.estimator.export.ClassificationOutput):
        given = {'scores': output.scores, 'classes': output.classes}
        return {name: tensor for name, tensor in given.items() if tensor is not None}
    return {}


def _refused(output, receiver_tensors) -> str | None:
    """Why there is no such signature with these receivers; None: there is."""
    if output is None:
        return 'the model_fn gives several export_outputs and names none of them so'
    tensors = receiver_tensors if isinstance(receiver_tensors, dict) else {'input': receiver_tensors}
    try:
        output.as_signature_def(tensors)
    except ValueError as error:
        return str(error).splitlines()[0]
    return None
