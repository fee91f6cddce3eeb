"""Opens what build.py has written, as its reader will, and compares. A program of its own.

    python reload.py WORK RESULT

The last line of its output is JSON: {file: greatest difference of a prediction}. Neither the package that has migrated
nor legacy Keras may be there.
"""

import json
import os
import sys

WORK, RESULT = sys.argv[1:3]
sys.path[:0] = [RESULT]

import dataset  # noqa: E402
import differences  # noqa: E402
import estimator_optimizers  # noqa: E402, F401
import feature_layers  # noqa: E402, F401
import keras  # noqa: E402
import numpy as np  # noqa: E402
import recorded  # noqa: E402
import signatures  # noqa: E402
import tensorflow as tf  # noqa: E402


def main():
    with open(os.path.join(WORK, 'description.json'), encoding='utf-8') as file:
        description = json.load(file)
    model = keras.models.load_model(os.path.join(RESULT, 'serving.keras'))
    saved = tf.saved_model.load(os.path.join(RESULT, 'saved_model'))

    def on_tensors(features):
        names = signatures.argument_names(dataset.FEATURES)
        given = {names[name]: dense(value) for name, value in features.items()}
        return saved.signatures['predict_on_tensors'](**given)

    found = {
        'serving.keras': recorded.different_predictions(WORK, model),
        'saved_model, on tensors': recorded.different_predictions(WORK, on_tensors, can_be_padded),
        'saved_model, on tf.Example': on_examples(saved.signatures['predict'], description['features']),
    }
    others = sorted({'estimator_trainer', 'tf_keras', 'tensorflow_estimator'} & set(sys.modules))
    print(
        '\n'
        + json.dumps(
            {'differences': {what: differences.greatest(each) for what, each in found.items()}, 'others': others}
        )
    )


def on_examples(predict, described):
    """Of the first batch, without the examples that tf.Example cannot have as the input_fn does.

    In a tensor '' or -1 is a value for a cross that reads the feature by its name, and no value for other columns.
    """
    features, _ = recorded.batches(WORK, 'eval')[0]
    rows = np.ones(len(examples(features, described)), bool)
    for name, one in described.items():
        if one['crossed'] and not one['sparse']:
            values = features[name]
            rows &= ~np.any(np.reshape(values == missing(values.dtype), [len(rows), -1]), 1)
    predicted = predict(examples=tf.constant(examples(features, described)))
    expected = recorded.load(WORK, 'predictions')
    of_the_batch = {name: expected[name][: len(value)] for name, value in predicted.items()}
    return differences.by_name(of_the_batch, {name: value.numpy() for name, value in predicted.items()}, rows)


def dense(value):
    if not isinstance(value, tf.SparseTensor):
        return value
    return tf.sparse.to_dense(value, missing(value.dtype))


def can_be_padded(features):
    """Whether no sparse feature of an example has '' or -1 as a value: in a padded tensor these are no values."""
    found = None
    for value in features.values():
        count = int(value.shape[0] if not isinstance(value, tf.SparseTensor) else value.dense_shape[0])
        found = np.ones(count, bool) if found is None else found
        if isinstance(value, tf.SparseTensor):
            found[value.indices.numpy()[:, 0][(value.values == missing(value.dtype)).numpy()]] = False
    return found


def missing(dtype):
    return tf.constant('') if dtype == tf.string else tf.cast(-1 if dtype.is_integer else 0, dtype)


def examples(features, described) -> list[bytes]:
    """Serialized tf.Examples of a batch. Where a tensor has '' or -1 for a missing category, they have none."""
    rows = {}
    for name, one in described.items():
        value = features[name]
        if isinstance(value, tf.SparseTensor):
            row, values = value.indices.numpy()[:, 0], value.values.numpy()
            rows[name] = [values[row == number] for number in range(int(value.dense_shape[0]))]
        else:
            rows[name] = [np.ravel(values) for values in value.numpy()]
            if one['parsed']['shape'] is None:
                nothing = missing(value.dtype).numpy()
                rows[name] = [values[values != nothing] for values in rows[name]]
    count = len(next(iter(rows.values())))
    kinds = {name: one['parsed']['dtype'] for name, one in described.items()}
    return [_example({name: values[number] for name, values in rows.items()}, kinds) for number in range(count)]


def _example(values, kinds) -> bytes:
    made = {}
    for name, value in values.items():
        if kinds[name] == 'string':
            made[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=value.tolist()))
        elif kinds[name] == 'float32':
            made[name] = tf.train.Feature(float_list=tf.train.FloatList(value=value.tolist()))
        else:
            made[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=value.tolist()))
    return tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString()


if __name__ == '__main__':
    main()
