"""Operations of TensorFlow that exchange tensors with the other ranks, in graphs, in functions and at once.

Each is one function of Python that a graph calls. It waits for the other ranks, and holds one of TensorFlow's threads
meanwhile. So whatever belongs together goes into one operation.
"""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_trainer.compat.horovod import packing, world

v1 = tf.compat.v1
_counts: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # {graph: how many of them it has}


def reduce_all(tensors: Sequence[Any], operation: str, name: str | None = None) -> list:
    """Reduces tensors over all ranks, in one exchange for each type.

    Args:
        tensors: tensors, IndexedSlices (which get the rows of all ranks: sum and average only), and None.
        operation: a name of `packing`.
        name: tells this operation from others; each rank gives it the same one.
    """
    if world.place().size == 1:
        return list(tensors)
    dense = [index for index, each in enumerate(tensors) if each is not None and not _is_sparse(each)]
    sparse = [index for index, each in enumerate(tensors) if _is_sparse(each)]
    if sparse and operation not in (packing.AVERAGE, packing.SUM):
        raise NotImplementedError(f'{operation} of IndexedSlices is not defined; use sparse_as_dense=True.')
    text = _text('DistributedReduce', name)

    def exchange(*arrays: np.ndarray) -> list[np.ndarray]:
        with world.exchange(text) as transport:
            totals = packing.reduced(transport, text, arrays[: len(dense)], operation) if dense else []
            rows = packing.gathered(transport, f'{text}/rows', arrays[len(dense) :]) if sparse else []
        if operation == packing.AVERAGE:
            rows = [
                each if number % 2 else packing.divided(each, world.place().size) for number, each in enumerate(rows)
            ]
        return [*totals, *rows]

    given = [tf.convert_to_tensor(tensors[index]) for index in dense]
    of_rows = [part for index in sparse for part in (tensors[index].values, tensors[index].indices)]
    reduced = _called(
        exchange, [*given, *of_rows], [each.shape for each in given] + [_any_rows(each) for each in of_rows]
    )
    results = list(tensors)
    for index, total in zip(dense, reduced):
        results[index] = total
    for number, index in enumerate(sparse):
        values, indices = reduced[len(dense) + 2 * number :][:2]
        results[index] = tf.IndexedSlices(values, indices, tensors[index].dense_shape)
    return results


def allgather(tensor: Any, name: str | None = None) -> tf.Tensor:
    """The rows of all ranks, in the order of the ranks. Its gradient is the sum of the ranks' for the own rows."""
    tensor = tf.convert_to_tensor(tensor)
    if not tensor.shape.rank and tensor.shape.rank is not None:
        raise ValueError('hvd.allgather needs a tensor with rows; a scalar has none.')
    if world.place().size == 1:
        return tf.identity(tensor)
    text = _text('DistributedGather', name)

    def exchange(array: np.ndarray) -> list[np.ndarray]:
        with world.exchange(text) as transport:
            return packing.gathered(transport, text, [array])

    @tf.custom_gradient
    def gather(rows: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            (total,) = reduce_all([upstream], packing.SUM, f'{text}/gradient')
            counts = allgather(tf.shape(rows)[:1], f'{text}/rows')
            start = tf.reduce_sum(counts[: world.place().rank])
            return total[start : start + tf.shape(rows)[0]]

        return _called(exchange, [rows], [_any_rows(rows)])[0], gradient

    return gather(tensor)


def broadcast_all(tensors: Sequence[Any], root_rank: int, name: str | None = None) -> list:
    """The tensors of rank `root_rank`, in one exchange; those of the other ranks tell shapes and types.

    Raises:
        ValueError: there is no such rank.
    """
    place = world.place()
    if not 0 <= root_rank < place.size:
        raise ValueError(f'root_rank={root_rank}: the ranks are 0 to {place.size - 1}')
    if place.size == 1 or not tensors:
        return list(tensors)
    text = _text('DistributedBroadcast', name)

    def exchange(*arrays: np.ndarray) -> list[np.ndarray]:
        with world.exchange(text) as transport:
            return packing.broadcast(transport, text, arrays, root_rank, place.rank)

    given = [tf.convert_to_tensor(each) for each in tensors]
    return _called(exchange, given, [each.shape for each in given])


def _called(
    function: Callable[..., list[np.ndarray]], tensors: Sequence[tf.Tensor], shapes: Sequence[tf.TensorShape]
) -> list:
    """The results of `function`, of the types of `tensors`, as one operation."""

    def of_arrays(*arrays: np.ndarray) -> list[np.ndarray]:
        return function(*(np.asarray(array) for array in arrays))

    count_operation()
    with tf.device('/device:CPU:0'):
        results = tf.numpy_function(of_arrays, tensors, [each.dtype for each in tensors])
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    for each, shape in zip(results, shapes):
        each.set_shape(shape)
    return results


def _text(kind: str, name: str | None) -> str:
    """What names an operation in every rank. What runs at once, or in a function, runs in one order everywhere."""
    if tf.executing_eagerly() or name:
        return f'{kind}/{name}' if name else kind
    return v1.get_default_graph().unique_name(f'{kind}/operation')


def _is_sparse(tensor: Any) -> bool:
    return isinstance(tensor, tf.IndexedSlices)


def _any_rows(tensor: tf.Tensor) -> tf.TensorShape:
    return tf.TensorShape([None]).concatenate(tensor.shape[1:])


def count_operation() -> None:
    """The current graph gets one more operation. What runs at once runs in order, and needs no thread."""
    if tf.executing_eagerly():
        return
    graph = v1.get_default_graph()
    while getattr(graph, 'outer_graph', None) is not None:  # the body of a cond or a loop
        graph = graph.outer_graph
    _counts[graph] = _counts.get(graph, 0) + 1
    _give_threads()


@functools.cache
def _give_threads() -> None:
    plain = v1.Session.__init__

    @functools.wraps(plain)
    def init(
        self: Any, target: str = '', graph: tf.Graph | None = None, config: tf.compat.v1.ConfigProto | None = None
    ) -> None:
        of_graph = v1.get_default_graph() if graph is None else graph
        plain(self, target, graph, config if target else with_threads(of_graph, config))

    v1.Session.__init__ = init


def with_threads(graph: tf.Graph, config: tf.compat.v1.ConfigProto | None) -> tf.compat.v1.ConfigProto | None:
    """A thread of a session for each operation of its graph that waits for other ranks.

    Touches: Session.__init__
    Without it: a program with more such operations than threads may wait for ever
    For: programs that import Horovod

    Nothing orders the operations of a graph that do not depend on each other. If there were fewer threads than
    operations, one rank could wait with all its threads for operations for which another rank has no thread left.

    The config of a session of `graph`: with several such operations, threads of its own, and one more for each.
    """
    needed = _counts.get(graph, 0)
    if needed < 2 or not isinstance(config, (v1.ConfigProto, type(None))):
        return config
    made = v1.ConfigProto()
    made.CopyFrom(config or made)
    if made.session_inter_op_thread_pool:
        return config
    # Without use_per_session_threads the first session of the process has decided how many threads there are.
    threads = max(made.inter_op_parallelism_threads, 0) or len(os.sched_getaffinity(0))
    made.inter_op_parallelism_threads, made.use_per_session_threads = threads + needed, True
    return made
