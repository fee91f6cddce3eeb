"""HDF5 -> `.keras`, and what the result predicts. Run as a program of its own: imports nothing of ours.

    python in_another_keras.py model.h5 model.keras features.npz predictions.npz

The last line of its output is JSON: `version` of Keras, and `is_keras_3`. The features are one array
named '', or arrays by name.
"""

import json
import sys

import h5py
import keras
import numpy as np

_NESTED = ('Sequential', 'Functional', 'Model')


def main(weights, to, features, predictions) -> None:
    is_keras_3 = hasattr(keras, 'ops')
    if is_keras_3:
        mend(weights)
    keras.models.load_model(weights, compile=False).save(to)
    model = keras.models.load_model(to, compile=False)  # what a reader will get
    with np.load(features) as found:
        inputs = {name: found[name] for name in found.files}
    outputs = model(inputs.get('', inputs), training=False)
    if isinstance(outputs, dict):
        outputs = [outputs[name] for name in sorted(outputs)]
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    np.savez(predictions, *[np.asarray(output) for output in outputs])
    print('\n' + json.dumps({'version': keras.__version__, 'is_keras_3': is_keras_3}))


def mend(path) -> None:
    """Renumbers the calls of models inside models in an HDF5 file of Keras 2.

    There call 0 of an inner model is the one of its own making. Keras 3 does not count it, and takes
    one off where an inner functional model gives an output of the outer one, but nowhere else.
    """
    with h5py.File(path, 'r+') as file:
        text = file.attrs['model_config']
        config = json.loads(text.decode() if isinstance(text, bytes) else text)
        _renumber(config)
        file.attrs['model_config'] = json.dumps(config).encode()


def _renumber(model) -> None:
    config = model.get('config')
    if not isinstance(config, dict) or not isinstance(config.get('layers'), list):
        return
    for layer in config['layers']:
        _renumber(layer)
    if 'output_layers' not in config:
        return  # a Sequential: its layers name no calls
    calls = [call for layer in config['layers'] for call in _calls(layer['inbound_nodes'])]
    outputs = list(_calls(config['output_layers']))
    for layer in config['layers']:
        if layer['class_name'] not in _NESTED:
            continue
        inside = [call for call in calls if call[0] == layer['name']]
        outside = [call for call in outputs if call[0] == layer['name']]
        if all(call[1] > 0 for call in inside + outside):
            for call in inside + (outside if layer['class_name'] == 'Sequential' else []):
                call[1] -= 1


def _calls(tree):
    """Every [layer's name, number of the call, number of the tensor, ...] in nested lists and dicts."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, list):
        if len(tree) in (3, 4) and isinstance(tree[0], str) and isinstance(tree[1], int):
            yield tree
        else:
            for branch in tree:
                yield from _calls(branch)


if __name__ == '__main__':
    main(*sys.argv[1:])
