"""What a graph says, read as a protocol buffer and never built: `.meta`, graph.pbtxt and the graph of a SavedModel."""

import contextlib
import os
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from google.protobuf import text_format
from google.protobuf.message import DecodeError, Message
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from estimator_trainer.compat.patches import graphs
from estimator_trainer.tools.inspection import kinds

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
_GRADIENTS = re.compile(r'(?:^|/)gradients(?:_\d+)?/')
_DEEP_COLUMN = re.compile(
    r'dnn/input_from_feature_columns/(?:input_layer(?:_\d+)?/)?(?!(?:input_layer|concat)(?:_\d+)?/)([^/]+)/(.+)$'
)
_OF_VARIABLES = re.compile(r'(?:^|/)(?:embedding_weights|Initializer)(?:/|$)')
# What a graph raises that makes no sense.
_NONSENSE = (TypeError, ValueError, IndexError, OverflowError, DecodeError)


class Graph(NamedTuple):
    """What a graph says beyond the names of variables.

    Attributes:
        source: the file.
        version: of the TensorFlow that has written it, or ''.
        applied: the class of an optimizer -> {setting: its values}; None among them is one that the graph computes.
        head: what its head computes, by names of operations.
        deep_columns: of a canned Estimator.
        unknown: operations that the TensorFlow of this process does not have.
        servers: number of parameter servers that the graph places variables on.
    """

    source: str
    version: str = ''
    operations: int = 0
    applied: dict[str, dict[str, tuple[float | None, ...]]] = {}
    head: frozenset[str] = frozenset()
    deep_columns: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    servers: int = 0


class TooLarge(ValueError):
    """The file is larger than what is read of its kind."""


def read(path: str) -> Graph:
    """Reads a `.meta` or graph.pbtxt.

    Raises:
        ValueError: it is damaged.
        TooLarge: it is not read.
        OSError: it cannot be read.
    """
    if path.endswith('.meta'):
        meta = parsed(path, meta_graph_pb2.MetaGraphDef(), LARGEST_META)
    else:
        meta = meta_graph_pb2.MetaGraphDef(graph_def=parsed(path, graph_pb2.GraphDef(), LARGEST_TEXT))
    if not meta.graph_def.node:
        raise ValueError('it holds no graph: it was cut short, or is another kind of file')
    with changed_bytes():
        return of_meta(meta, os.path.basename(path))


def parsed(path: str, message: Message, most: int) -> Any:
    """The message in a file of at most so many bytes; one whose name ends with `.pbtxt` is text. Raises what `read`
    raises."""
    bytes_there = os.path.getsize(path)
    if bytes_there > most:
        raise TooLarge(f'it has {bytes_there >> 20} MiB; no more than {most >> 20} MiB are read of such a file')
    with open(path, 'rb') as file:
        content = file.read()
    try:
        if path.endswith('.pbtxt'):
            return text_format.Parse(content.decode(), message, allow_unknown_field=True)
        message.ParseFromString(content)
    except (DecodeError, text_format.ParseError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f'it cannot be parsed: it was cut short or changed ({_brief(error)})') from error
    return message


@contextlib.contextmanager
def changed_bytes() -> Iterator[None]:
    """Raises ValueError where a graph makes no sense: a changed byte may leave one that can be parsed."""
    try:
        yield
    except _NONSENSE as error:
        raise ValueError(f'its graph was changed ({_brief(error)})') from error


def _brief(error: Exception) -> str:
    """Its first line, without the bytes of the file that it may quote."""
    return textwrap.shorten((str(error) or type(error).__name__).splitlines()[0], _LONGEST, placeholder=' ...')


def of_meta(meta: meta_graph_pb2.MetaGraphDef, source: str) -> Graph:
    """What a graph says. Raises one of many errors if it makes no sense."""
    nodes, functions = list(meta.graph_def.node), meta.graph_def.library.function
    everything = [*nodes, *(node for function in functions for node in function.node_def)]
    operations = {node.op for node in everything} - {function.signature.name for function in functions}
    servers = {match[1] for node in nodes if (match := _PS.search(node.device))}
    heads = (kinds.IN_HEAD.search(node.name) for node in nodes if not _GRADIENTS.search(node.name))
    return Graph(
        source,
        meta.meta_info_def.tensorflow_version,
        len(everything),
        _applied(nodes),
        frozenset(match[1] for match in heads if match),
        _deep_columns(nodes),
        tuple(sorted(name for name in operations if graphs.definition(name) is None)),
        len(servers),
    )


def _applied(nodes: Sequence[Any]) -> dict[str, dict[str, tuple[float | None, ...]]]:
    """Class of an optimizer -> its settings, from the operations that change variables."""
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
    """The number that an operation gives; None: it is computed."""
    node = by_name.get(source.partition(':')[0].lstrip('^'))
    for _ in range(3):  # Identity and Cast stand between
        if node is not None and node.op in ('Identity', 'Cast') and node.input:
            node = by_name.get(node.input[0].partition(':')[0].lstrip('^'))
    if node is None or node.op != 'Const':
        return None
    value = tf.make_ndarray(node.attr['value'].tensor)
    return float(value.item()) if value.size == 1 else None


def _deep_columns(nodes: Iterable[Any]) -> tuple[str, ...]:
    """The columns of the deep part of a canned Estimator, those without variables too, by the scopes of operations."""
    matches = (_DEEP_COLUMN.match(node.name) for node in nodes)
    return tuple(sorted({match[1] for match in matches if match and not _OF_VARIABLES.search(match[2])}))
