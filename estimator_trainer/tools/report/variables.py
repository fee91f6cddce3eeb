"""The variables of a checkpoint, from its index: names, shapes, sizes, slices. Reads no weights."""

import os
from typing import NamedTuple

import numpy as np

from estimator_trainer.run_dir import bundle
from estimator_trainer.tools.inspection import roles
from estimator_trainer.tools.inspection.facts import Variable

_OBJECT_GRAPH = '_CHECKPOINTABLE_OBJECT_GRAPH'
_ATTRIBUTE = '/.ATTRIBUTES/VARIABLE_VALUE'
_NAMES = {'float': 'float32', 'double': 'float64', 'half': 'float16'}
_BYTES = {'bfloat16': 2, 'bool': 1}


class Weight(NamedTuple):
    """A variable of the model, with what the optimizer stores for it."""

    variable: Variable
    slots: tuple[str, ...]
    slot_bytes: int


class CheckpointVariables(NamedTuple):
    """The variables of one checkpoint."""

    checkpoint: str
    weights: tuple[Weight, ...]
    others: int  # variables that are no weights: settings, the step
    bytes: int  # of all
    weight_bytes: int
    parameters: int  # elements of the weights


def read(prefix: str) -> CheckpointVariables:
    """The table of a checkpoint of format V2.

    Raises:
        ValueError: its index is damaged.
        OSError: it cannot be read.
    """
    index = bundle.read(prefix)
    names = _names(prefix, index) if _OBJECT_GRAPH in index.tensors else {}
    found = [
        Variable(
            names.get(key) or key.removesuffix(_ATTRIBUTE),
            _dtype(entry.dtype),
            tuple(dim.size for dim in entry.shape.dim),
            sum(_size(entry.dtype, shape) for shape in bundle.slice_shapes(entry)) if entry.slices else entry.size,
            max(1, len(entry.slices)),
            key if _OBJECT_GRAPH in index.tensors else '',
        )
        for key, entry in sorted(index.tensors.items())
        if key != _OBJECT_GRAPH
    ]
    return of(os.path.basename(prefix), found)


def of(checkpoint: str, variables: list[Variable]) -> CheckpointVariables:
    """The table of these variables. Pure."""
    slots: dict[str, list[roles.Role]] = {}
    weights, others = [], 0
    for each in roles.roles(variables):
        if each.role == roles.WEIGHT:
            weights.append(each.variable)
        elif each.of and each.role in (roles.SLOT, roles.SHADOW):
            slots.setdefault(each.of, []).append(each)
        else:
            others += 1
    return CheckpointVariables(
        checkpoint,
        tuple(
            Weight(
                weight,
                tuple(f'{each.by}/{each.slot}'.strip('/') for each in slots.get(weight.name, ())),
                sum(each.variable.bytes for each in slots.get(weight.name, ())),
            )
            for weight in weights
        ),
        others,
        sum(each.bytes for each in variables),
        sum(each.bytes for each in weights),
        sum(int(np.prod(each.shape, dtype=np.int64)) for each in weights),
    )


def _dtype(number: int) -> str:
    from tensorboard.compat.proto import types_pb2

    try:
        name = types_pb2.DataType.Name(number).removeprefix('DT_').lower()
    except ValueError:
        return f'type {number}'
    return _NAMES.get(name, name)


def _size(dtype: int, shape) -> int:
    name = _dtype(dtype)
    try:
        item = _BYTES.get(name) or np.dtype(name).itemsize
    except TypeError:
        item = 0
    return int(np.prod(shape, dtype=np.int64)) * item


def _names(prefix: str, index: bundle.Bundle) -> dict[str, str]:
    """Key -> name of the variable, from the graph of objects that the checkpoint holds as its one string."""
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto import trackable_object_graph_pb2

    entry = index.tensors[_OBJECT_GRAPH]
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
