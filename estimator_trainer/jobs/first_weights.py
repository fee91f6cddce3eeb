"""Makes first weights depend on `--seed` and the variable's name alone, if a graph's initializers have no seed.

TensorFlow numbers the random operations of a graph, and an operation without a seed takes its number as its seed. So
without this module the first values of a variable would depend on the operations before it: on the number of replicas,
and on the slices of a table.
"""

import copy
import logging
import re
import weakref
import zlib

from estimator_trainer.compat.patches import unseeded_operations

_log = logging.getLogger('estimator_trainer')
_told: weakref.WeakSet = weakref.WeakSet()  # graphs


def of_seed(seed: int):
    """A context in which `tf.compat.v1.get_variable` gives random initializers without a seed one of their own."""
    import tensorflow as tf

    v1 = tf.compat.v1
    unseeded_operations.install()

    def get_variable(getter, name, *args, initializer=None, dtype=tf.float32, **kwargs):
        if initializer is None and tf.as_dtype(dtype or tf.float32).is_floating:
            initializer = v1.glorot_uniform_initializer()  # as get_variable has it
        if not isinstance(initializer, _seedable()) or initializer.seed is not None:
            return getter(name, *args, initializer=initializer, dtype=dtype, **kwargs)
        return getter(name, *args, initializer=_seeded(initializer, of_name(seed, name)), dtype=dtype, **kwargs)

    return v1.variable_scope(v1.get_variable_scope(), custom_getter=get_variable, auxiliary_name_scope=False)


def of_name(seed: int, name: str) -> int:
    return zlib.crc32(f'{seed} {name}'.encode()) & 0x7FFFFFFF


def warn_of_undecided() -> None:
    """Names the variables of this graph that begin with values of random operations without a seed, once."""
    import tensorflow as tf

    graph = tf.compat.v1.get_default_graph()
    if graph in _told:
        return
    _told.add(graph)
    unseeded = unseeded_operations.of(graph)
    variables = (each for each in tf.compat.v1.global_variables() if _comes_from(each, unseeded))
    found = {re.sub(r'(/replica_\d+)?:0$', '', each.name) for each in variables}
    if found:
        _log.warning(
            'WARNING: --seed alone does not decide the first values of %s: they come from a random operation without a '
            'seed, and are others with another number of replicas; give the operation a seed, or use '
            'tf.compat.v1.get_variable',
            ', '.join(sorted(found)),
        )


def _comes_from(variable, operations) -> bool:
    """Whether the first value of a variable depends on any of these operations."""
    first = getattr(variable, 'values', (variable,))[0].initial_value  # of a replica, where there are several
    seen: set = set()
    waiting = [] if first is None else [first.op]
    while waiting:
        operation = waiting.pop()
        if operation in operations:
            return True
        if operation not in seen:
            seen.add(operation)
            waiting += [each.op for each in operation.inputs]
    return False


def _seeded(initializer, seed: int):
    """The initializer with a seed. A slice of a table is cut out of the first values of the whole table."""
    import tensorflow as tf

    seeded = copy.copy(initializer)
    seeded.seed = seed

    def initial(shape, dtype=None, partition_info=None):
        if partition_info is None:
            return seeded(shape, dtype)
        return tf.slice(seeded(partition_info.full_shape, dtype), partition_info.var_offset, shape)

    return initial


def _seedable() -> tuple:
    import tensorflow as tf

    v1 = tf.compat.v1
    return (
        v1.random_normal_initializer,
        v1.random_uniform_initializer,
        v1.truncated_normal_initializer,
        v1.variance_scaling_initializer,
        v1.orthogonal_initializer,
    )
