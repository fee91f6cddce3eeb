"""The SavedModel with the Estimator's signatures, each on serialized tf.Examples and on the features themselves."""

import re

import dataset
import keras
import tensorflow as tf

_EXAMPLES = [tf.TensorSpec([None], tf.string, name='examples')]


def export(built, description: dict, folder: str) -> None:
    """Writes the SavedModel: `predict`, `serving_default` and what the head has of `classification` and `regression`,
    on tf.Example; the same names with `_on_tensors` take a tensor for each feature, by `argument_names`."""
    archive = keras.export.ExportArchive()
    archive.track(built.serving)
    archive.track(built.on_examples)
    features = description['features']
    arguments = argument_names(features)
    specs = [tf.TensorSpec([None, *one['shape']], one['dtype'], arguments[name]) for name, one in features.items()]

    def add(signature, outputs):
        def on_examples(examples):
            return outputs(built.on_examples(dataset.parse(examples)))

        def on_tensors(*values):
            return outputs(
                built.serving({name: _as_input(value, features[name]) for name, value in zip(features, values)})
            )

        archive.add_endpoint(signature, on_examples, _EXAMPLES)
        archive.add_endpoint(f'{signature}_on_tensors', on_tensors, specs)

    for signature, outputs in signatures(description['head']['kind']).items():
        add(signature, outputs)
    archive.write_out(folder, verbose=False)


def argument_names(features) -> dict:
    """{feature: its name in signatures}: the same, but for characters that TensorFlow does not take there."""
    made = {}
    for name in features:
        argument = re.sub(r'^(?![A-Za-z0-9.])', 'arg', re.sub(r'[^A-Za-z0-9_.-]', '_', name))
        while argument in made.values():
            argument += '_'
        made[name] = argument
    return made


def signatures(kind: str) -> dict:
    """{name: predictions -> what the signature returns}, as the Estimator's head names them."""
    classes = {'classification': lambda found: {'classes': found['all_classes'], 'scores': found['probabilities']}}
    by_kind = {
        'binary': {**classes, 'regression': lambda found: {'outputs': found['logistic']}},
        'multi_class': classes,
        'multi_label': {
            'classification': lambda found: {'classes': found['classes'], 'scores': found['probabilities']}
        },
    }
    numbers = {'regression': lambda found: {'outputs': found['predictions']}}
    made = by_kind.get(kind, numbers)
    first = next(iter(made.values()))
    return {'serving_default': first, **made, 'predict': lambda found: found}


def _as_input(value, one):
    """A sparse feature comes as a tensor that is padded with '' or -1."""
    if not one['sparse']:
        return value
    missing = '' if value.dtype == tf.string else tf.cast(-1, value.dtype) if value.dtype.is_integer else 0.0
    there = tf.where(tf.not_equal(value, missing))
    return tf.SparseTensor(there, tf.gather_nd(value, there), tf.shape(value, out_type=tf.int64))
