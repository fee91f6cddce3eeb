"""The layers and columns of a model, from the names and shapes of its variables. Pure."""

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from estimator_trainer.tools.inspection.kinds import Kind
from estimator_trainer.tools.inspection.variables import Variable

_LINEAR = re.compile(r'^linear/(?:linear_model/)?(?P<column>.+)/weights?$')
_INPUT = re.compile(
    r'^(?:dnn/input_from_feature_columns/(?:input_layer(?:_\d+)?/)?|sequence_features/)(?P<column>[^/]+)/'
)
_HIDDEN = re.compile(r'^dnn/hiddenlayer_(?P<number>\d+)/(?:kernel|weights)$')
_TABLES = ('embedding_weights', 'embeddings', 'embedding', 'embedding_table', 'word_embeddings', 'table')
_MATRICES = ('kernel', 'weights', 'weight', 'w', 'W', 'matrix')
_KERNELS = {3: '1-d convolution', 4: 'convolution', 5: '3-d convolution'}


class Layer(NamedTuple):
    """Variables that belong together.

    Attributes:
        name: the scope that they share, or the column.
        kind: in words; '' where names and shapes do not tell.
        part: 'linear column', 'deep column' or 'layer'.
    """

    name: str
    kind: str
    part: str
    variables: tuple[Variable, ...]

    @property
    def numbers(self) -> int:
        return sum(_product(each.shape) for each in self.variables)

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.variables)

    @property
    def slices(self) -> int:
        return max((each.slices for each in self.variables), default=1)


LINEAR_COLUMN, DEEP_COLUMN, LAYER = 'linear column', 'deep column', 'layer'


def layers(weights: Sequence[Variable], kind: Kind, columns: dict[tuple[str, str], str]) -> list[Layer]:
    """The layers of a model, in the order of their names; columns first.

    Args:
        columns: (part, column) -> what the graph says of it. Deep columns without variables are known only from it.
    """
    if not ({'linear', 'dnn', 'rnn'} & set(kind.parts)):
        return _scopes(weights)
    every: list[Layer] = []
    rest = []
    for weight in weights:
        linear, deep = _LINEAR.match(weight.name), _INPUT.match(weight.name)
        if linear:
            name = linear['column']
            every.append(Layer(name, columns.get(('linear', name), _by_name(name)), LINEAR_COLUMN, (weight,)))
        elif deep:
            name = deep['column']
            known = columns.get(('dnn', name), '')
            text = f'embedding of {weight.shape[-1]}' + (f', {known}' if known else '') if weight.shape else known
            every.append(Layer(name, text, DEEP_COLUMN, (weight,)))
        else:
            rest.append(weight)
    there = {layer.name for layer in every if layer.part == DEEP_COLUMN}
    for (part, name), text in columns.items():
        if part == 'dnn' and name not in there:
            every.append(Layer(name, text, DEEP_COLUMN, ()))
    every.sort(key=lambda layer: (layer.part != LINEAR_COLUMN, layer.name))
    return every + _scopes(rest)


def hidden_units(weights: Sequence[Variable]) -> list[int]:
    """The widths of the hidden layers of a canned Estimator."""
    widths = {
        int(match['number']): each.shape[-1] for each in weights if (match := _HIDDEN.match(each.name)) and each.shape
    }
    return [widths[number] for number in sorted(widths)]


def _scopes(weights: Sequence[Variable]) -> list[Layer]:
    together: dict[str, list[Variable]] = {}
    for weight in weights:
        together.setdefault(weight.name.rpartition('/')[0], []).append(weight)
    return [
        Layer(scope, _kind(scope, members), LAYER, tuple(members))
        for scope, members in sorted(together.items(), key=_natural)
    ]


def _natural(item) -> list:
    """hiddenlayer_2 comes before hiddenlayer_10."""
    return [int(part) if part.isdigit() else part for part in re.split(r'(\d+)', item[0])]


def _kind(scope: str, variables: Sequence[Variable]) -> str:
    shapes = {each.name.rpartition('/')[2]: each.shape for each in variables}
    if {'moving_mean', 'moving_variance'} <= set(shapes):
        return f'batch normalization of {shapes["moving_mean"][-1]}' if shapes['moving_mean'] else 'batch normalization'
    if set(shapes) and set(shapes) <= {'gamma', 'beta'}:
        return 'normalization'
    if {'depthwise_kernel', 'pointwise_kernel'} <= set(shapes):
        return f'separable convolution, {_channels(shapes["pointwise_kernel"])}'
    if 'recurrent_kernel' in shapes and len(shapes['recurrent_kernel']) == 2:
        return f'recurrent layer of {shapes["recurrent_kernel"][0]} units'
    if set(shapes) <= {'bias', 'biases', 'bias_weights', 'bias_weight'}:
        return 'bias'
    for name, shape in shapes.items():
        if name in _TABLES and len(shape) == 2:
            return f'embedding of {shape[1]}'
        if name.startswith('depthwise') and len(shape) == 4:
            return f'depthwise convolution {shape[0]}x{shape[1]}'
        if name not in _MATRICES:
            continue
        if re.search('(?:lstm|gru|rnn)[^/]*$', scope, re.IGNORECASE) and len(shape) == 2:
            return 'recurrent layer'
        if len(shape) == 2:
            return f'dense, {_channels(shape)}'
        if len(shape) in _KERNELS:
            return f'{_KERNELS[len(shape)]} {"x".join(map(str, shape[:-2]))}, {_channels(shape)}'
    return ''


def _channels(shape: Sequence[int]) -> str:
    return f'{shape[-2]} to {shape[-1]}'


def _by_name(column: str) -> str:
    for mark, kind in (('_X_', 'crossed'), ('_bucketized', 'bucketized'), ('_indicator', 'indicator')):
        if mark in column:
            return f'{kind}, by its name'
    return ''


def _product(shape: Sequence[int]) -> int:
    return math.prod(shape)
