"""The variables in a checkpoint of format V2, from its index: names, shapes, sizes and slices. Reads no weights, and
imports no TensorFlow."""

from typing import Any, NamedTuple

import numpy as np

from estimator_trainer.run_dir import bundle

OBJECT_GRAPH = '_CHECKPOINTABLE_OBJECT_GRAPH'  # the key of the tree of objects of tf.train.Checkpoint
ATTRIBUTE = '/.ATTRIBUTES/VARIABLE_VALUE'  # how the key of a variable in such a tree ends
_NAMES = {'float': 'float32', 'double': 'float64', 'half': 'float16'}
_BYTES = {'bfloat16': 2, 'bool': 1}


class Variable(NamedTuple):
    """A variable of a checkpoint.

    Attributes:
        name: in the graph. A checkpoint of objects has it beside the key.
        shape: of the whole variable.
        bytes: that the checkpoint stores for it.
        slices: in how many slices it is stored.
        key: in the checkpoint, where that is not the name.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    slices: int = 1
    key: str = ''

    @property
    def shown_shape(self) -> str:
        return 'x'.join(map(str, self.shape)) or 'scalar'


def read(prefix: str) -> list[Variable]:
    """The variables of a checkpoint, by their keys. In a tree of objects each has a key.

    Raises:
        ValueError: its index is damaged.
        OSError: it cannot be read.
    """
    index = bundle.read(prefix)
    is_tree = OBJECT_GRAPH in index.tensors
    names = _names(prefix, index) if is_tree else {}
    return [
        Variable(
            names.get(key) or key.removesuffix(ATTRIBUTE),
            dtype_name(entry.dtype),
            tuple(dim.size for dim in entry.shape.dim),
            sum(size(entry.dtype, shape) for shape in bundle.slice_shapes(entry)) if entry.slices else entry.size,
            max(1, len(entry.slices)),
            key if is_tree else '',
        )
        for key, entry in sorted(index.tensors.items())
        if key != OBJECT_GRAPH
    ]


def dtype_name(number: int) -> str:
    """'float32', for a number of the enumeration DataType."""
    from tensorboard.compat.proto import types_pb2

    try:
        name = types_pb2.DataType.Name(number).removeprefix('DT_').lower()
    except ValueError:
        return f'type {number}'
    return _NAMES.get(name, name)


def size(dtype: int, shape: Any) -> int:
    """The bytes of an array of this type; 0 for strings, which have no size of their own."""
    name = dtype_name(dtype)
    try:
        item = _BYTES.get(name) or np.dtype(name).itemsize
    except TypeError:
        item = 0
    return int(np.prod(shape, dtype=np.int64)) * item


def _names(prefix: str, index: bundle.Bundle) -> dict[str, str]:
    """Key -> name of the variable, from the tree of objects, which is the one string of the checkpoint. {} where that
    cannot be read."""
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto import trackable_object_graph_pb2

    entry = index.tensors[OBJECT_GRAPH]
    try:
        with open(bundle.shard_paths(prefix, index.shards)[entry.shard_id], 'rb') as file:
            file.seek(entry.offset)
            data = file.read(entry.size)
        length_bytes = next(place for place, byte in enumerate(data) if byte < 128) + 1
        graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(data[length_bytes + 4 :])  # 4: a checksum
    except (OSError, IndexError, StopIteration, DecodeError):
        return {}
    return {
        attribute.checkpoint_key: attribute.full_name
        for node in graph.nodes
        for attribute in node.attributes
        if attribute.full_name
    }
