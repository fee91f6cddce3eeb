"""HDF5 -> `.keras`, and what the result predicts. Run as a program of its own: imports nothing of ours.

    python in_another_keras.py model.h5 model.keras features.npz predictions.npz

The last line of its output is JSON: `version` of Keras, and `is_keras_3`. The features are one array
named '', or arrays by name. Where Keras cannot take the model, the last line of stderr says why.
"""

import inspect
import json
import re
import sys

import h5py
import keras
import numpy as np

_NESTED = ('Sequential', 'Functional', 'Model')
_UNHEEDED = 'leave the argument away, which Keras 2 does not heed in this layer'
# Arguments that layers of Keras 2 have in their configs, and some or all of those of Keras 3 refuse -> the value
# without which a layer is the same, and what to do about another one. They are left out of classes that refuse them.
_LEFT_OUT = {
    'groups': (1, _UNHEEDED),  # of transposed, depthwise and separable convolutions
    'noise_shape': (None, _UNHEEDED),  # of SpatialDropout
    'softmax_robust_masking': (False, 'leave the argument away, if each query may attend to some key'),
    'time_major': (False, 'let it take batches of sequences, (batch, time, …), by time_major=False'),
}
_LEFT_OUT_WITH_ANY_VALUE = (
    'rng_type',  # of augmentation, which does nothing in a prediction
    'trainable',  # of layers without weights
    *('query_shape', 'key_shape', 'value_shape'),  # of attention: Keras 3 has them of the inputs
    *('kernel_initializer', 'kernel_regularizer', 'kernel_constraint'),  # of separable convolutions: of no variable
)
_UNKNOWN = re.compile(r"Unknown layer: '(\w+)'")
_OPERATION = 'give a layer, such as Add, Rescaling or Activation, in place of an operation on the tensors of the model'
_CURES = {'TFOpLambda': _OPERATION, 'SlicingOpLambda': _OPERATION, 'ThresholdedReLU': 'ReLU(threshold=…) is the same'}


def main(weights, to, features, predictions) -> None:
    is_keras_3 = hasattr(keras, 'ops')
    if is_keras_3:
        mend(weights)
    try:
        model = keras.models.load_model(weights, compile=False)
    except ValueError as error:
        kind = _UNKNOWN.match(str(error))
        if kind is None:
            raise
        cure = _CURES.get(kind[1], 'build the model of other layers')
        sys.exit(f'Keras {keras.__version__} has no layer {kind[1]}; {cure}')
    model.save(to)
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
    """Makes the description of a model in an HDF5 file of Keras 2 one that Keras 3 takes.

    Arguments that Keras 3 refuses, or does not understand, are left out where the layer is the same without them.

    The calls of models inside models are renumbered: in Keras 2 call 0 of an inner model is the one of its own making.
    Keras 3 does not count it, and takes one off where an inner functional model gives an output of the outer one, but
    nowhere else. Calls with tensors given by name are written as Keras 3 does.

    Raises:
        SystemExit: a layer has an argument that Keras 3 refuses or takes for another, and is not the same without it.
    """
    with h5py.File(path, 'r+') as file:
        text = file.attrs['model_config']
        config = json.loads(text.decode() if isinstance(text, bytes) else text)
        _mend_layers(config)
        _renumber(config)
        _name_tensors(config)
        file.attrs['model_config'] = json.dumps(config).encode()


def _mend_layers(tree) -> None:
    """Goes through models, layers in wrappers, and cells."""
    if isinstance(tree, dict):
        kind, config = tree.get('class_name'), tree.get('config')
        layer = getattr(keras.layers, kind, None) if isinstance(kind, str) else None
        if inspect.isclass(layer) and isinstance(config, dict):
            _mend_layer(tree, layer)
        tree = list(tree.values())
    if isinstance(tree, list):
        for branch in tree:
            _mend_layers(branch)


def _mend_layer(tree, layer) -> None:
    kind, config = tree['class_name'], tree['config']
    has = f'the layer {config.get("name", kind)!r}, {kind}, has'
    for name in _refused(layer, config):
        same, cure = _LEFT_OUT.get(name, (config[name], ''))
        if config[name] != same:
            sys.exit(f'{has} {name}={config[name]!r}, which Keras {keras.__version__} does not take; {cure}')
        del config[name]
    for name, value in config.items():
        if value == 'hard_sigmoid' and name.endswith('activation'):
            sys.exit(
                f'{has} {name}={value!r}, which is relu6(x + 3) / 6 in Keras 3 and was clip(x / 5 + 0.5, 0, 1); train '
                "the model with another function, such as 'sigmoid'"
            )
    if kind == 'Attention' and config.get('score_mode') == 'dot':
        del config['score_mode']  # the default, which Keras 3 takes for the name of its function keras.layers.dot


def _refused(layer, config) -> list:
    """Those of the arguments above that are in the config, and that no __init__ of the class takes by name."""
    names = [name for name in (*_LEFT_OUT, *_LEFT_OUT_WITH_ANY_VALUE) if name in config]
    for each in layer.__mro__:
        if '__init__' not in vars(each):
            continue
        taken = inspect.signature(each.__init__).parameters
        names = [name for name in names if name not in taken]
        if all(argument.kind != argument.VAR_KEYWORD for argument in taken.values()):
            break
    return names


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


def _name_tensors(model) -> None:
    """Writes calls with tensors that are given by name, such as `value` of attention, in the form of Keras 3, which
    does not find them in the form of Keras 2."""
    config = model.get('config')
    if not isinstance(config, dict) or not isinstance(config.get('layers'), list):
        return
    for layer in config['layers']:
        _name_tensors(layer)
        for number, node in enumerate(layer.get('inbound_nodes', ())):
            if isinstance(node, list) and any(_calls([call[3:] for call in node if isinstance(call, list)])):
                given = [_tensor(call[:3]) for call in node]
                by_name = {name: _tensor(value) if _is_call(value) else value for name, value in node[-1][3].items()}
                layer['inbound_nodes'][number] = {'args': given if len(given) == 1 else [given], 'kwargs': by_name}


def _is_call(value) -> bool:
    return isinstance(value, list) and any(call is value for call in _calls(value))


def _tensor(call):
    """Shape and type are those of the call, whatever is written here."""
    return {'class_name': '__keras_tensor__', 'config': {'shape': [None], 'dtype': 'float32', 'keras_history': call}}


def _calls(tree):
    """Every [layer's name, number of the call, number of the tensor, ...] in nested lists and dicts."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, list):
        if len(tree) in (3, 4) and isinstance(tree[0], str) and isinstance(tree[1], int):
            yield tree
            yield from _calls(tree[3:])  # tensors that are given by name
        else:
            for branch in tree:
                yield from _calls(branch)


if __name__ == '__main__':
    main(*sys.argv[1:])
