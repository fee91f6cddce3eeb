"""The variables that a graph has, for a folder whose checkpoints cannot be read."""

import math
import re
from collections.abc import Collection, Iterable
from typing import Any

import tensorflow as tf

from estimator_trainer.tools.inspection.facts import Variable

_KINDS = ('VarHandleOp', 'VariableV2', 'Variable')
_PART = re.compile(r'/part_\d+(?=/|$)')  # before the name of a slot, too
_UNNAMED = re.compile(r'VarHandleOp(?:_\d+)?$')  # what the trainer counts with, and no checkpoint has


def of_nodes(nodes: Iterable[Any], names: Collection[str] | None) -> tuple[Variable, ...]:
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
    return tuple(_joined(name, members) for name, members in sorted(parts.items()))


def _joined(name: str, slices: list[Variable]) -> Variable:
    shape = slices[0].shape
    if len(slices) > 1 and shape:
        cut = next((axis for axis in range(len(shape)) if len({each.shape[axis] for each in slices}) > 1), 0)
        shape = (*shape[:cut], sum(each.shape[cut] for each in slices), *shape[cut + 1 :])
    return Variable(name, slices[0].dtype, shape, sum(each.bytes for each in slices), len(slices))
