"""What a graph says, read as a protocol buffer and never built: `.meta`, graph.pbtxt and the graph of a SavedModel."""

import math
import os
import re
import textwrap
from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from google.protobuf.message import DecodeError
from tensorflow.core.framework import graph_pb2, variable_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from estimator_trainer.compat.patches import graphs
from estimator_trainer.tools.inspection import columns_of_run
from estimator_trainer.tools.inspection.facts import Graph
from estimator_trainer.tools.inspection.variables import Variable

LARGEST_META = 1 << 30
LARGEST_TEXT = 64 << 20  # a graph of this size as text takes half a minute
_LONGEST = 120  # characters of a message of protobuf's
_APPLY = re.compile(r'^(?:Resource)?(?:Sparse)?Apply(?P<name>\w+?)(?:V2)?$')
_NAMES = {
    'GradientDescent': 'SGD',
    'KerasMomentum': 'Momentum',
    'CenteredRMSProp': 'RMSProp',
    'AdamWithAmsgrad': 'Adam',
}
_SETTINGS = {'lr': 'learning_rate', 'alpha': 'learning_rate', 'lr_power': 'learning_rate_power'}
_SETTINGS |= {name: name for name in ('rho', 'momentum', 'l1', 'l2', 'beta1', 'beta2', 'epsilon')}
_PS = re.compile(r'/job:ps/(?:replica:\d+/)?task:(\d+)')
_HEAD = re.compile(r'(?:^|/)head/(.+)$')
_GRADIENTS = re.compile(r'(?:^|/)gradients(?:_\d+)?/')
_KINDS = ('VarHandleOp', 'VariableV2', 'Variable')
_PART = re.compile(r'/part_\d+(?=/|$)')  # before the name of a slot, too
_UNNAMED = re.compile(r'VarHandleOp(?:_\d+)?$')  # what the trainer counts with, and no checkpoint has
_NOTES = (
    (lambda node: 'sync_rep_local_step' in node.name, 'trained in step by SyncReplicasOptimizer'),
    (lambda node: node.op in ('TPUReplicate', '_TPUReplicate', 'TPUReplicateMetadata'), 'built for TPUs'),
    (lambda node: node.op.startswith('BoostedTrees'), 'boosted trees'),
    (lambda node: node.op.startswith('Collective'), 'trained by several workers with collective operations'),
    (
        lambda node: node.op in ('PyFunc', 'EagerPyFunc', 'PyFuncStateless'),
        'calls Python functions, which are not in it',
    ),
    (lambda node: node.op in ('QueueDequeueManyV2', 'QueueDequeueV2'), 'read its input from queues'),
)


NONSENSE = (TypeError, ValueError, IndexError, OverflowError, DecodeError)  # what such a graph raises


def brief(error: Exception) -> str:
    """Its first line, without the bytes of the file that it may quote."""
    return textwrap.shorten((str(error) or type(error).__name__).splitlines()[0], _LONGEST, placeholder=' ...')


class TooLarge(ValueError):
    """The file is larger than what is read of its kind."""


def read_meta(path: str) -> Graph:
    """Reads a `.meta`.

    Raises:
        ValueError: it is damaged.
        TooLarge: it is not read.
        OSError: it cannot be read.
    """
    meta = _parse(path, LARGEST_META, meta_graph_pb2.MetaGraphDef.FromString)
    if not meta.graph_def.node:
        raise ValueError('it holds no graph: it was cut short, or is another kind of file')
    return _described(of_meta, meta, os.path.basename(path))


def read_text(path: str) -> Graph:
    """Reads graph.pbtxt. Raises what `read_meta` raises."""

    def parse(content: bytes) -> graph_pb2.GraphDef:
        return text_format.Parse(content.decode(), graph_pb2.GraphDef(), allow_unknown_field=True)

    graph = _parse(path, LARGEST_TEXT, parse)
    if not graph.node:
        raise ValueError('it holds no graph')
    return _described(of_graph, graph, os.path.basename(path), '')


def _described(describe: Callable[..., Graph], *given: Any) -> Graph:
    """A changed byte may leave a graph that can be parsed, and makes no sense."""
    try:
        return describe(*given)
    except NONSENSE as error:
        raise ValueError(f'its graph was changed ({brief(error)})') from error


def _parse(path: str, most: int, parse: Callable[[bytes], Any]) -> Any:
    size = os.path.getsize(path)
    if size > most:
        raise TooLarge(f'it has {size >> 20} MiB; no more than {most >> 20} MiB are read of such a file')
    with open(path, 'rb') as file:
        content = file.read()
    try:
        return parse(content)
    except (DecodeError, text_format.ParseError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f'it cannot be parsed: it was cut short or changed ({brief(error)})') from error


def of_meta(meta: meta_graph_pb2.MetaGraphDef, source: str) -> Graph:
    saved = meta.collection_def['variables'].bytes_list.value if 'variables' in meta.collection_def else ()
    names = {variable_pb2.VariableDef.FromString(each).variable_name.partition(':')[0] for each in saved}
    return of_graph(meta.graph_def, source, meta.meta_info_def.tensorflow_version, names or None)


def of_graph(graph: graph_pb2.GraphDef, source: str, version: str, names: Collection[str] | None = None) -> Graph:
    """What a graph says. `names` are those of the variables that a checkpoint would have, where that is known."""
    nodes = list(graph.node)
    everything = [*nodes, *(node for function in graph.library.function for node in function.node_def)]
    functions = {function.signature.name for function in graph.library.function}
    operations = {node.op for node in everything} - functions
    servers = {match[1] for node in nodes if (match := _PS.search(node.device))}
    heads = (match[1] for node in nodes if not _GRADIENTS.search(node.name) and (match := _HEAD.search(node.name)))
    return Graph(
        source,
        version,
        len(everything),
        _applied(nodes),
        frozenset(heads),
        columns_of_run.of_nodes(nodes),
        tuple(sorted(name for name in operations if graphs.definition(name) is None)),
        len(servers),
        tuple(text for test, text in _NOTES if any(map(test, everything))),
        _variables(nodes, names),
    )


def _applied(nodes: Iterable[Any]) -> dict[str, dict[str, tuple[float | None, ...]]]:
    """Class of an optimizer -> its settings, from the operations that change variables."""
    nodes = list(nodes)
    by_name = {node.name: node for node in nodes}
    optimizers: dict[str, dict[str, set]] = {}
    for node in nodes:
        match = _APPLY.match(node.op)
        if not match:
            continue
        settings = optimizers.setdefault(_NAMES.get(match['name'], match['name']), {})
        known = graphs.definition(node.op)
        for argument, source in zip(known.input_arg if known else (), node.input):
            if argument.name in _SETTINGS:
                settings.setdefault(_SETTINGS[argument.name], set()).add(_constant(source, by_name))
    return {
        name: {
            key: tuple(sorted(values, key=lambda value: (value is None, value or 0)))
            for key, values in settings.items()
        }
        for name, settings in sorted(optimizers.items())
    }


def _constant(source: str, by_name: dict[str, Any]) -> float | None:
    for _ in range(4):  # Identity and Cast stand between
        node = by_name.get(source.partition(':')[0].lstrip('^'))
        if node is None:
            return None
        if node.op == 'Const':
            value = tf.make_ndarray(node.attr['value'].tensor)
            return float(np.asarray(value).reshape(-1)[0]) if value.size == 1 else None
        if node.op not in ('Identity', 'Cast') or not node.input:
            return None
        source = node.input[0]
    return None


def _variables(nodes: Iterable[Any], names: Collection[str] | None) -> tuple[Variable, ...]:
    """The variables, the slices of one variable together. `bytes` are what they take in memory.

    Args:
        names: of the variables that a checkpoint would have; None takes all.
    """
    parts: dict[str, list[Variable]] = {}
    for node in nodes:
        shape = node.attr['shape'].shape
        if node.op not in _KINDS or shape.unknown_rank:
            continue
        if _UNNAMED.match(node.name) if names is None else node.name not in names:
            continue
        sizes = tuple(dim.size for dim in shape.dim)
        dtype = tf.as_dtype(node.attr['dtype'].type).base_dtype
        size = 0 if dtype == tf.string or min(sizes, default=0) < 0 else math.prod(sizes) * dtype.size
        parts.setdefault(_PART.sub('', node.name), []).append(Variable(node.name, dtype.name, sizes, size))
    return tuple(_joined_slices(name, members) for name, members in sorted(parts.items()))


def _joined_slices(name: str, slices: list[Variable]) -> Variable:
    shape = slices[0].shape
    if len(slices) > 1 and shape:
        cut = next((axis for axis in range(len(shape)) if len({each.shape[axis] for each in slices}) > 1), 0)
        shape = (*shape[:cut], sum(each.shape[cut] for each in slices), *shape[cut + 1 :])
    return Variable(name, slices[0].dtype, shape, sum(each.bytes for each in slices), len(slices))
