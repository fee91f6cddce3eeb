"""Builds the Keras 3 model of a canned Estimator, proves it, and writes it. A program of its own.

    python build.py WORK RESULT

WORK has what the Estimator's process has recorded: description.json, weights, slots, batches and predictions.
RESULT has the modules that the user gets, and receives model.keras, serving.keras and saved_model. The last line of
the output is JSON: the differences. Neither this package nor legacy Keras is imported here.
"""

import json
import os
import sys

WORK, RESULT = sys.argv[1:3]
sys.path[:0] = [RESULT]

import dataset  # noqa: E402
import heads  # noqa: E402
import keras  # noqa: E402
import model as models  # noqa: E402
import recorded  # noqa: E402
import signatures  # noqa: E402
import tensorflow as tf  # noqa: E402
import tensors  # noqa: E402
from differences import relative  # noqa: E402


def main():
    with open(os.path.join(WORK, 'description.json'), encoding='utf-8') as file:
        description = json.load(file)
    built = models.Built(description)
    names = {id(variable): name for name, variable in built.pairs.items()}
    load(built.pairs, 'weights')
    optimizer = models.optimizer_of(description, built)
    load(models.state(description, optimizer, names), 'slots')
    optimizer.iterations.assign(description['step'])
    head = description['head']
    built.model.compile(optimizer, heads.loss(head, description['units']), weighted_metrics=heads.metrics(head))
    built.model.save(os.path.join(RESULT, 'model.keras'))
    built.serving.save(os.path.join(RESULT, 'serving.keras'))
    signatures.export(built, description, os.path.join(RESULT, 'saved_model'))

    differences = {
        'predictions': recorded.different_predictions(WORK, built.serving),
        'evaluation': different_metrics(built.model, description['metrics']),
        'steps': different_steps(description, {variable.path: name for name, variable in built.pairs.items()}),
    }
    print('\n' + json.dumps({'keras': keras.__version__, **differences}))


def load(variables, file):
    found = recorded.load(WORK, file)
    for name, variable in variables.items():
        variable.assign(tf.reshape(found[name], variable.shape))


def keras_batches(kind):
    batches = recorded.batches(WORK, kind)
    made = tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=tensors.spec(batches))
    return made.map(dataset.for_keras)


def different_metrics(model, expected):
    """{name: relative difference} of the metrics that both have. Of the loss Estimator gives the mean of the batches,
    Keras that of the examples."""
    found = model.evaluate(keras_batches('eval'), verbose=0, return_dict=True)
    taken = {name: value for name, value in expected.items() if name in found and name != 'loss'}
    return {name: relative(value, found[name]) for name, value in taken.items()}


def different_steps(description, by_path):
    """The model as its reader will get it takes the next steps. {variable or slot: greatest difference}."""
    if description['deep'] and description['deep']['dropout']:
        return None  # it draws random numbers
    model = keras.models.load_model(os.path.join(RESULT, 'model.keras'))
    model.fit(keras_batches('train').repeat(), steps_per_epoch=description['more_steps'], verbose=0, shuffle=False)
    weights = {by_path[variable.path]: variable for variable in model.variables if variable.path in by_path}
    names = {id(variable): name for name, variable in weights.items()}
    found = {}
    for variables, file in (
        (weights, 'weights_after'),
        (models.state(description, model.optimizer, names), 'slots_after'),
    ):
        expected = recorded.load(WORK, file)
        for name, variable in variables.items():
            found[name] = relative(tf.reshape(expected[name], variable.shape), variable.value)
    return found


if __name__ == '__main__':
    main()
