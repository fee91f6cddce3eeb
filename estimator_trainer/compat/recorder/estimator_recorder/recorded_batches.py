"""The tensors of a batch by name, and its examples by digest."""

import hashlib

import numpy as np
import tensorflow as tf

_ROWS = 1024  # of a batch, that are told apart
_ATTRIBUTE = '_estimator_recorder_batches'


def keep(features, labels):
    """Remembers what a model_fn is about to get, in its graph; with a strategy there is one batch for each replica."""
    graph = tf.compat.v1.get_default_graph()
    kept = getattr(graph, _ATTRIBUTE, [])
    setattr(graph, _ATTRIBUTE, kept)
    named = {**_named('features', features), **_named('labels', labels)}
    if kept:
        named = {f'{name} (replica {len(kept) + 1})': tensor for name, tensor in named.items()}
    kept.append((named, dict(features) if isinstance(features, dict) else features))


def kept():
    """(name -> tensor of all replicas, features of the first one) of the current graph."""
    batches = getattr(tf.compat.v1.get_default_graph(), _ATTRIBUTE, [])
    named = {name: tensor for each, _ in batches for name, tensor in each.items()}
    return named, batches[0][1] if batches else None


def _named(prefix, value):
    """The tensors in a structure. Those of a SparseTensor have the names of its components."""
    if isinstance(value, dict):
        return {name: each for key in value for name, each in _named(f'{prefix}/{key}', value[key]).items()}
    if isinstance(value, tf.SparseTensor):
        return _named(prefix, {'indices': value.indices, 'values': value.values, 'shape': value.dense_shape})
    if isinstance(value, tf.Tensor):
        graph = tf.compat.v1.get_default_graph()
        usable = value.graph is graph and graph.is_fetchable(value) and value.dtype not in (tf.resource, tf.variant)
        return {prefix: value} if usable else {}
    if isinstance(value, (list, tuple)):
        parts = list(value)
    else:
        parts = tf.nest.flatten(value, expand_composites=True)
    if len(parts) == 1 and parts[0] is value:
        return {}
    return {name: each for place, part in enumerate(parts) for name, each in _named(f'{prefix}/{place}', part).items()}


def rows(arrays):
    """A digest of each example of a batch; none where the arrays do not have one row for each example."""
    arrays = [np.asarray(array) for _, array in sorted(arrays.items())]
    lengths = {array.shape[0] if array.ndim else None for array in arrays}
    if len(lengths) != 1 or None in lengths:
        return []
    return [
        hashlib.sha1(b'\0'.join(_bytes(array[row]) for array in arrays)).hexdigest()[:12]
        for row in range(min(lengths.pop(), _ROWS))
    ]


def _bytes(value):
    value = np.asarray(value)
    return repr(value.tolist()).encode('utf-8', 'surrogatepass') if value.dtype.kind == 'O' else value.tobytes()
