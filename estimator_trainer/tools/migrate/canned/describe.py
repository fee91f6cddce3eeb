"""A canned Estimator as plain JSON: all that the process needs that builds the Keras model."""

import json
import re

import tensorflow as tf

from estimator_trainer.compat.patches import canned_estimators
from estimator_trainer.tools.migrate import optimizers_of
from estimator_trainer.tools.migrate.canned import columns, recover
from estimator_trainer.tools.migrate.canned.columns import Unsupported

_LINEAR, _DEEP = 'linear/linear_model', 'dnn'
_INPUT_LAYER = 'dnn/input_from_feature_columns/input_layer'
_ACTIVATIONS = (
    'relu relu6 tanh sigmoid selu elu gelu softplus softsign swish silu leaky_relu linear exponential'
).split()  # not hard_sigmoid, which Keras 3 computes in another way

_HEADS = {
    'BinaryClassHead': 'binary',
    '_BinaryLogisticHeadWithSigmoidCrossEntropyLoss': 'binary',
    'MultiClassHead': 'multi_class',
    '_MultiClassHeadWithSoftmaxCrossEntropyLoss': 'multi_class',
    'MultiLabelHead': 'multi_label',
    '_MultiLabelHead': 'multi_label',
    'RegressionHead': 'regression',
    '_RegressionHeadWithMeanSquaredErrorLoss': 'regression',
    'PoissonRegressionHead': 'poisson',
    'LogisticRegressionHead': 'logistic',
}
_REDUCTIONS = {  # of tf.compat.v1.losses, but for the first
    'auto': 'sum_over_batch_size',  # to heads of version 2
    'weighted_sum': 'sum',
    'weighted_mean': 'mean',
    'weighted_sum_over_batch_size': 'sum_over_batch_size',
    'weighted_sum_by_nonzero_weights': 'sum_over_nonzero_weights',
}


def description(estimator, features, labels, specs) -> dict:
    """All of the model.

    Args:
        estimator: a canned one, or one whose model_fn calls one.
        features, labels: a batch; the features are {name: tensor or tf.SparseTensor}.
        specs: {name: tf.TensorSpec or tf.SparseTensorSpec} of all batches, as `record.specs` gives them.

    Raises:
        recover.NotCanned: it calls no canned model function.
        Unsupported: a column, head, activation or optimizer that has no equal in Keras 3.
    """
    recovered = recover.read(estimator, features, labels, _Optimizers())
    arguments, function = recovered.arguments, recovered.function
    both = 'linear_combined' in function
    feature_columns = []
    dtypes = {name: value.dtype for name, value in features.items()}
    head = _head(arguments['head'])
    weights = features.get(head['weight_column'])
    if weights is not None and any(size != 1 for size in weights.shape[1:]):
        raise _weights_of_labels(weights.shape[1:])
    found = {
        'function': function,
        'head': head,
        'units': arguments['head'].logits_dimension,
        'linear': None,
        'deep': None,
        'baseline': 'baseline/bias' if 'baseline' in function else None,
    }
    if both or 'linear' in function:
        prefix = 'linear_' if both else ''
        wide = arguments[f'{prefix}feature_columns'] or ()
        feature_columns += wide
        found['linear'] = _linear(wide, arguments[f'{prefix}sparse_combiner'], dtypes) if wide else None
    if both or 'dnn' in function:
        deep = arguments['dnn_feature_columns' if both else 'feature_columns'] or ()
        feature_columns += deep
        found['deep'] = _deep(deep, arguments, 'dnn_' if both else '', dtypes) if deep else None
    found['optimizers'] = [{**update.optimizer, 'variables': update.variables} for update in recovered.updates]
    found['features'] = _features(found, features, specs, columns.parse_spec(feature_columns, dtypes))
    found['shapes'] = {name: recovered.shapes[name] for name in variables(found) if name in recovered.shapes}
    found['labels_are_sparse'] = isinstance(labels, tf.SparseTensor)
    changed = [name for name in (*found['features'], head['weight_column']) if name in recovered.changed]
    if changed:
        raise Unsupported(f'a model_fn that changes the features {", ".join(changed)}; let the input_fn do it, as this')
    return json.loads(json.dumps(found, default=lambda number: number.item()))  # numbers may be NumPy's


class _Optimizers:
    """Describes the optimizers of one Estimator, in the order in which it runs them."""

    def __init__(self):
        self._before = None

    def __call__(self, optimizer) -> dict:
        try:
            return optimizers_of.description(optimizer, self._before)
        except ValueError as error:
            raise Unsupported(str(error)) from error
        finally:
            self._before = optimizer


def _head(head) -> dict:
    """The head as plain JSON. Raises Unsupported for a head, a loss or a weight column that has no equal in Keras 3."""
    kind = type(head).__name__
    if kind not in _HEADS:
        raise Unsupported(f'the head {kind}')
    if canned_estimators.head_setting(head, 'loss_fn') is not None and kind not in (
        'PoissonRegressionHead',
        'LogisticRegressionHead',
    ):
        raise Unsupported(f'the loss_fn of {kind}')
    name = _HEADS[kind]
    if name == 'regression' and canned_estimators.head_setting(head, 'inverse_link_fn') is not None:
        raise Unsupported(f'the inverse_link_fn of {kind}')
    if name == 'poisson' and not canned_estimators.head_setting(head, 'compute_full_loss'):
        name = 'poisson_without_full_loss'
    reduction = str(canned_estimators.head_setting(head, 'loss_reduction', 'sum_over_batch_size'))
    weight = canned_estimators.head_setting(head, 'weight_column')
    if weight is not None and not isinstance(weight, str):
        if getattr(weight, 'normalizer_fn', None):
            raise Unsupported('a weight_column with a normalizer_fn')
        if tuple(weight.shape) != (1,):
            raise _weights_of_labels(weight.shape)
        weight = weight.key
    vocabulary = canned_estimators.head_setting(head, 'label_vocabulary')
    return {
        'kind': name,
        'n_classes': {'binary': 2}.get(name) or canned_estimators.head_setting(head, 'n_classes'),
        'label_vocabulary': [columns.text(word, 'the labels') for word in vocabulary or ()] or None,
        'weight_column': weight,
        'loss_reduction': _REDUCTIONS.get(reduction, reduction),
        'version': 1 if kind.startswith('_') else 2,
    }


def _weights_of_labels(shape) -> Unsupported:
    return Unsupported(f'a weight_column of shape {tuple(shape)}; a weight for each example, which')


def _linear(wide, combiner, dtypes):
    found = []
    for column in sorted(wide, key=lambda column: column.name):
        scope = f'{_LINEAR}/{_scope(column.name)}'
        one = {'name': column.name, 'weights': f'{scope}/weights'}
        if type(column).__name__ == 'EmbeddingColumn':
            one |= {'embedding': columns.embedding(column, dtypes), 'table': f'{scope}/embedding_weights'}
        else:
            one['column'] = columns.to_json(column, dtypes)
        found.append(one)
    return {'columns': found, 'combiner': combiner, 'bias': f'{_LINEAR}/bias_weights'}


def _deep(deep, arguments, prefix, dtypes):
    found = []
    for column in sorted(deep, key=lambda column: column.name):
        one = {'name': column.name}
        if type(column).__name__ == 'EmbeddingColumn':
            table = f'{_INPUT_LAYER}/{column.name}/embedding_weights'
            one |= {'embedding': columns.embedding(column, dtypes), 'table': table}
        else:
            one['column'] = columns.to_json(column, dtypes)
        found.append(one)
    return {
        'columns': found,
        'hidden_units': [int(units) for units in arguments[f'{prefix}hidden_units']],
        'activation': _activation(arguments[f'{prefix}activation_fn']),
        'dropout': arguments[f'{prefix}dropout'],
        'batch_norm': bool(arguments['batch_norm']),
    }


def _activation(function) -> str:
    if function is None:
        return 'linear'
    name = function if isinstance(function, str) else getattr(function, '__name__', '')
    known = name in _ACTIVATIONS and (name, getattr(tf.nn, name, None), getattr(tf.keras.activations, name, None))
    if not known or function not in known:
        raise Unsupported(f'activation_fn {name or function!r}, which has no name in Keras,')
    return name


def _scope(name: str) -> str:
    """What a linear model makes of a column's name for the names of its variables."""
    return re.sub(r'[^A-Za-z0-9_.\-]', '_', name)


def _features(found, features, specs, parse_spec) -> dict:
    """What the model reads of the input_fn's features, and of tf.Example.

    {feature: its dtype, the shape of an example, whether it is sparse, whether a cross reads it by its name, and
    `parsed`, how tf.Example has it}
    """
    used = {}
    crossed = set()
    for part in (found['linear'], found['deep']):
        for one in part['columns'] if part else ():
            column = one.get('column') or one['embedding']['column']
            crossed.update(columns.crossed(column))
            for key in columns.keys(column):
                used[key] = used.get(key, False) or _may_be_missing(column, key)
    if not used:  # a baseline reads no feature, but how many examples there are; the weights tell it as well
        weight = found['head']['weight_column']
        used = {min((name for name in features if name != weight), default=weight): True}
    missing = [key for key in used if key not in features]
    if missing:
        raise Unsupported(f'the input_fn gives no feature {", ".join(missing)}, which columns read; such an Estimator')
    named_like_paths = [key for key in used if '/' in key]
    if named_like_paths:
        raise Unsupported(f'the feature {", ".join(named_like_paths)}: Keras 3 takes no "/" in a name, so it')
    made = {}
    for key, may_be_missing in used.items():
        value = features[key]
        made[key] = {
            'dtype': value.dtype.name,
            'shape': list((specs if may_be_missing else features)[key].shape[1:]),  # how many numbers a column knows
            'sparse': isinstance(value, tf.SparseTensor),
            'crossed': key in crossed,
            'parsed': parse_spec.get(key) or {'dtype': _of_example(value.dtype), 'shape': None, 'default': None},
        }
    return made


def _of_example(dtype) -> str:
    """What tf.Example has for a dtype."""
    return 'string' if dtype == tf.string else 'float32' if dtype.is_floating else 'int64'


def _may_be_missing(column, key) -> bool:
    """Whether an example may have none of it, or any number: categories may, numbers may not."""
    if isinstance(column, str):
        return True
    if column['kind'] in ('numeric', 'bucketized'):
        return column['key'] != key
    if column.get('weight_key') == key:
        return False
    return all(_may_be_missing(inner, key) for inner in (column.get('column'), *column.get('keys', ())) if inner)


def variables(found) -> list[str]:
    """The names of all weights in the checkpoint."""
    names = [found['baseline']] if found['baseline'] else []
    for one in found['linear']['columns'] if found['linear'] else ():
        names += [one['weights'], *([one['table']] if 'table' in one else [])]
    if found['linear']:
        names.append(found['linear']['bias'])
    if found['deep']:
        names += [one['table'] for one in found['deep']['columns'] if 'table' in one]
        layers = [f'hiddenlayer_{number}' for number in range(len(found['deep']['hidden_units']))]
        names += [f'dnn/{layer}/{part}' for layer in (*layers, 'logits') for part in ('kernel', 'bias')]
        if found['deep']['batch_norm']:
            parts = ('gamma', 'beta', 'moving_mean', 'moving_variance')
            names += [f'dnn/{layer}/batchnorm_{number}/{part}' for number, layer in enumerate(layers) for part in parts]
    return names
