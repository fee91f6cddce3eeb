"""Makes first weights depend on `--seed` and the variable's name alone, if a graph's initializers have no seed.

TensorFlow numbers the random operations of a graph, and an operation without a seed takes its number as its seed. So
without this module the first values of a variable would depend on the operations before it, and therefore on the number
of replicas and on the slices of a table.
"""

import copy
import logging
import math
import re
import types
import weakref
import zlib
from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any

from estimator_trainer.compat.patches import graphs

if TYPE_CHECKING:
    import tensorflow as tf

_log = logging.getLogger('estimator_trainer')
BLOCK_VALUES = 2**26  # 256 MiB of float32
_warned: 'weakref.WeakSet[tf.Graph]' = weakref.WeakSet()

# TensorFlow has no public classes for these.
_Initializer = Any
_Context = Any  # what tf.compat.v1.variable_scope returns


def of_seed(seed: int) -> _Context:
    """A context in which `tf.compat.v1.get_variable` gives a seed to random initializers that have none."""
    import tensorflow as tf

    v1 = tf.compat.v1
    graphs.note_unseeded()

    def get_variable(
        getter: 'Callable[..., tf.Variable]',
        name: str,
        *args: Any,
        initializer: _Initializer = None,
        dtype: 'tf.DType | None' = tf.float32,
        **kwargs: Any,
    ) -> 'tf.Variable':
        if initializer is None and tf.as_dtype(dtype or tf.float32).is_floating:
            initializer = v1.glorot_uniform_initializer()  # the default of get_variable
        if not isinstance(initializer, _seedable()) or initializer.seed is not None:
            return getter(name, *args, initializer=initializer, dtype=dtype, **kwargs)
        return getter(name, *args, initializer=_seeded(initializer, of_name(seed, name)), dtype=dtype, **kwargs)

    return v1.variable_scope(v1.get_variable_scope(), custom_getter=get_variable, auxiliary_name_scope=False)


def of_name(seed: int, name: str) -> int:
    """The seed of a variable, from 0 to 2**31 - 1."""
    return zlib.crc32(f'{seed} {name}'.encode()) & 0x7FFFFFFF


def warn_of_undecided() -> None:
    """Warns of variables of this graph that begin with values of random operations without a seed, once a graph."""
    import tensorflow as tf

    graph = tf.compat.v1.get_default_graph()
    if graph in _warned:
        return
    _warned.add(graph)
    unseeded = graphs.unseeded(graph)
    variables = (each for each in tf.compat.v1.global_variables() if _comes_from(each, unseeded))
    names = {re.sub(r'(/replica_\d+)?:0$', '', each.name) for each in variables}
    if names:
        _log.warning(
            'WARNING: --seed alone does not decide the first values of %s: they come from a random operation without a '
            'seed, and are others with another number of replicas; give the operation or its initializer a seed, or '
            'leave the initializer to tf.compat.v1.get_variable',
            ', '.join(sorted(names)),
        )


def _comes_from(variable: 'tf.Variable', operations: 'Container[tf.Operation]') -> bool:
    """Whether the first value of a variable depends on any of these operations."""
    first = getattr(variable, 'values', (variable,))[0].initial_value  # if there are several replicas, that of one
    seen: set[tf.Operation] = set()
    waiting = [] if first is None else [first.op]
    while waiting:
        operation = waiting.pop()
        if operation in operations:
            return True
        if operation not in seen:
            seen.add(operation)
            waiting += [each.op for each in operation.inputs]
    return False


def _seeded(initializer: _Initializer, seed: int) -> 'Callable[..., tf.Tensor]':
    """Makes an initializer with a seed. A part of a partitioned variable gets its rows of the whole variable.

    A variable of more than `BLOCK_VALUES` values is drawn in blocks of rows, each of which has a seed of its own. So
    no task needs memory for more than its part and the blocks at its ends.
    """
    import tensorflow as tf

    def drawn(seed: int, *args: Any) -> tf.Tensor:
        seeded = copy.copy(initializer)
        seeded.seed = seed
        return seeded(*args)

    def initial(shape: Any, dtype: tf.DType | None = None, partition_info: Any = None) -> tf.Tensor:
        shape = tf.TensorShape(shape).as_list()
        whole = shape if partition_info is None else tf.TensorShape(partition_info.full_shape).as_list()
        offset = [0] * len(shape) if partition_info is None else list(partition_info.var_offset)
        if math.prod(whole) <= BLOCK_VALUES or not _draws_rows(initializer):
            values = drawn(seed, whole, dtype)
            return values if partition_info is None else tf.slice(values, offset, shape)
        rows = max(1, BLOCK_VALUES // math.prod(whole[1:]))
        starts = range(offset[0] // rows * rows, offset[0] + shape[0], rows)
        whole_info = types.SimpleNamespace(full_shape=whole)  # initializers take their scale from it
        blocks = [
            drawn(
                of_name(seed, str(start)) if start else seed,
                [min(rows, whole[0] - start), *whole[1:]],
                dtype,
                whole_info,
            )
            for start in starts
        ]
        return tf.slice(tf.concat(blocks, 0), [offset[0] - starts[0], *offset[1:]], shape)

    return initial


def _draws_rows(initializer: _Initializer) -> bool:
    """Whether an initializer draws each row independently of the others, except for a scale."""
    import tensorflow as tf

    row_by_row = [kind.__call__ for kind in _seedable() if kind is not tf.compat.v1.orthogonal_initializer]
    return type(initializer).__call__ in row_by_row


def _seedable() -> tuple[Any, ...]:
    """The initializers that take a seed."""
    import tensorflow as tf

    v1 = tf.compat.v1
    return (
        v1.random_normal_initializer,
        v1.random_uniform_initializer,
        v1.truncated_normal_initializer,
        v1.variance_scaling_initializer,
        v1.orthogonal_initializer,
    )
