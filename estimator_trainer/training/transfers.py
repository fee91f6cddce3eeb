"""Fewer and larger transfers between a worker and its parameter servers.

TensorFlow makes a transfer of its own for each tensor that goes from one task to another: hundreds in each step of a
wide-and-deep model, and each costs more than its bytes. Here tensors that go the same way at the same time go together.
"""

import collections
import functools
import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from estimator_trainer.compat.patches import graphs

v1 = tf.compat.v1
_WAITING = ('Dequeue', 'TakeGradient', 'Unstage')
_MOST_BYTES = 2**20  # of a tensor that travels with others: the copies of a larger one cost more than a transfer
_MOST_BYTES_OF_ROW = 4096  # where the number of rows is not known


def bundle(targets: Iterable[tf.Operation | tf.Tensor]) -> int:
    """Rewires what `targets` need in their graph: tensors of one type that go from one task to another travel as one.

    A way from task to task may lead over others. Only tensors with as many transfers before them go together, so that
    none of them depends on another one of its bundle. Those that come from a queue or an accumulator, which may wait
    for something else in the step, go together only if they wait for the same ones. A graph with the control flow of
    TensorFlow 1 is left as it is.

    Args:
        targets: operations and tensors, all of one graph that is not yet finalized.

    Returns:
        How many tensors travel with others now.
    """
    ops = _needed([target if isinstance(target, tf.Operation) else target.op for target in targets])
    if any(graphs.is_in_control_flow(op) for op in ops):
        return 0
    depths, waits = _depths(ops), _waits(ops)
    # {(transfers before, what is waited for, from, to, type): {tensor: its consumers there}}
    bundles: dict[tuple[Any, ...], dict[Any, list[tuple[tf.Operation, int]]]] = collections.defaultdict(dict)
    for op in ops:
        for number, tensor in enumerate(op.inputs):
            source, target = _task(tensor.op), _task(op)
            if source != target and source and target and _can_travel(tensor):
                way = (depths[tensor.op], waits[tensor.op], source, target, tensor.dtype)
                bundles[way].setdefault(tensor.ref(), []).append((op, number))
    count = 0
    for (_, _, source, target, _), consumers in bundles.items():
        if len(consumers) > 1:
            tensors = [ref.deref() for ref in consumers]
            for tensor, arrived in zip(tensors, _together(tensors, source, target)):
                for op, number in consumers[tensor.ref()]:
                    graphs.replace_input(op, number, arrived)
            count += len(tensors)
    return count


def _together(tensors: Sequence[tf.Tensor], source: str, target: str) -> list[tf.Tensor]:
    """The tensors on another task, after one transfer, or two where the shapes are not known."""
    known = all(tensor.shape.is_fully_defined() for tensor in tensors)
    with tensors[0].graph.as_default(), v1.name_scope('transfer'), tf.control_dependencies(None):
        with tf.device(source):
            packed = tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)
            shapes = [tensor.shape if known else tf.shape(tensor) for tensor in tensors]
            all_shapes: Any = None if known else tf.concat(shapes, 0)
        with tf.device(target):
            if known:
                sizes = [tensor.shape.num_elements() for tensor in tensors]
            else:
                # TensorFlow would look for its value in the whole graph before, once for each tensor: seconds.
                all_shapes = v1.placeholder_with_default(all_shapes, all_shapes.shape)
                shapes = tf.split(all_shapes, [tensor.shape.rank for tensor in tensors])
                sizes = tf.stack([tf.reduce_prod(shape) for shape in shapes])
            parts = tf.split(packed, sizes, num=len(tensors))
            arrived = [tf.reshape(part, shape) for part, shape in zip(parts, shapes)]
    for tensor, copy in zip(tensors, arrived):
        copy.set_shape(tensor.shape)
    return arrived


def _needed(targets: Iterable[tf.Operation]) -> list[tf.Operation]:
    """The operations that these need, each after those that it needs itself."""
    ordered, seen, left = [], set[tf.Operation](), [(op, False) for op in targets]
    while left:
        op, is_left = left.pop()
        if is_left:
            ordered.append(op)
        elif op not in seen:
            seen.add(op)
            left.append((op, True))
            left += [(other, False) for other in _before(op)]
    return ordered


def _before(op: tf.Operation) -> list[tf.Operation]:
    return [*op.control_inputs, *(tensor.op for tensor in op.inputs)]


def _depths(ops: Iterable[tf.Operation]) -> dict[tf.Operation, int]:
    """Transfers on the longest way to each operation."""
    depths: dict[tf.Operation, int] = {}
    for op in ops:
        ways = (depths[other] + (_task(other) != _task(op)) for other in _before(op) if other in depths)
        depths[op] = max(ways, default=0)
    return depths


def _waits(ops: Iterable[tf.Operation]) -> dict[tf.Operation, int]:
    """The operations that wait for others without an edge in the graph, and on which each operation depends: a bit for
    each."""
    waits: dict[tf.Operation, int] = {}
    count = 0
    for op in ops:
        waits[op] = functools.reduce(operator.or_, (waits.get(other, 0) for other in _before(op)), 0)
        if any(part in op.type for part in _WAITING):
            waits[op] |= 1 << count
            count += 1
    return waits


def _task(op: tf.Operation) -> str:
    """'/job:ps/task:0', or '' where it is not known."""
    return _task_of(op.device)


@functools.lru_cache
def _task_of(name: str) -> str:
    device = tf.DeviceSpec.from_string(name)
    return f'/job:{device.job}/task:{device.task}' if device.job is not None and device.task is not None else ''


def _can_travel(tensor: tf.Tensor) -> bool:
    of_a_value = tensor.dtype not in (tf.resource, tf.variant) and not graphs.is_reference(tensor)
    if not of_a_value or tensor.shape.rank is None:
        return False
    known = math.prod(size for size in tensor.shape.as_list() if size is not None) * max(1, tensor.dtype.size)
    return known <= (_MOST_BYTES if tensor.shape.is_fully_defined() else _MOST_BYTES_OF_ROW)
