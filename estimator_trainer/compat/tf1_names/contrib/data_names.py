"""tf.contrib.lookup, whose arguments have other names than those of tf.lookup, and functions of tf.contrib.data.

Touches: lookup_ops in tensorflow.python.ops, and StaticHashTableV1.init there
Without it: programs cannot make the tables of tf.contrib.lookup
For: programs under `compat run --tf1`

Behaviour: https://www.tensorflow.org/versions/r1.15/api_docs/python/tf/contrib/lookup

tf.data has replaced the functions of tf.contrib.data by arguments of other functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import lookup_ops

lookup_ops.StaticHashTableV1.init = property(lambda table: table.initializer)  # its name in TensorFlow 1


class HashTable(lookup_ops.StaticHashTableV1):
    """`shared_name` was for sessions that share a table; here each graph has its own."""

    def __init__(
        self, initializer: Any, default_value: Any, shared_name: str | None = None, name: str | None = None
    ) -> None:
        super().__init__(initializer, default_value, name=name or shared_name)


class MutableHashTable(lookup_ops.MutableHashTable):
    def __init__(
        self,
        key_dtype: tf.DType,
        value_dtype: tf.DType,
        default_value: Any,
        shared_name: str | None = None,
        name: str | None = 'MutableHashTable',
        checkpoint: bool = True,
    ) -> None:
        super().__init__(key_dtype, value_dtype, default_value, name=shared_name or name, checkpoint=checkpoint)


class MutableDenseHashTable(lookup_ops.DenseHashTable):
    def __init__(
        self,
        key_dtype: tf.DType,
        value_dtype: tf.DType,
        default_value: Any,
        empty_key: Any,
        deleted_key: Any,
        initial_num_buckets: int | None = None,
        shared_name: str | None = None,
        name: str | None = 'MutableDenseHashTable',
        checkpoint: bool = True,
    ) -> None:
        name = shared_name or name
        super().__init__(
            key_dtype, value_dtype, default_value, empty_key, deleted_key, initial_num_buckets, name, checkpoint
        )


def index_table_from_tensor(
    mapping: Any,
    num_oov_buckets: int = 0,
    default_value: Any = -1,
    hasher_spec: Any = lookup_ops.FastHashSpec,
    dtype: tf.DType = tf.string,
    name: str | None = None,
) -> Any:
    return lookup_ops.index_table_from_tensor(mapping, num_oov_buckets, default_value, hasher_spec, dtype, name)


def index_to_string_table_from_tensor(mapping: Any, default_value: str = 'UNK', name: str | None = None) -> Any:
    return lookup_ops.index_to_string_table_from_tensor(mapping, default_value, name)


def string_to_index(tensor: Any, mapping: Any, default_value: Any = -1, name: str | None = None) -> tf.Tensor:
    table = index_table_from_tensor(mapping, default_value=default_value, name=name)
    return table.lookup(tensor)


def index_to_string(tensor: Any, mapping: Any, default_value: Any = 'UNK', name: str | None = None) -> tf.Tensor:
    return index_to_string_table_from_tensor(mapping, default_value, name).lookup(tf.cast(tensor, tf.int64))


def batch_and_drop_remainder(batch_size: int) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
    """For Dataset.apply: batches of exactly batch_size examples."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(
    batch_size: int, padded_shapes: Any, padding_values: Any = None
) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
    """For Dataset.apply: padded batches of exactly batch_size examples."""
    return lambda dataset: dataset.padded_batch(batch_size, padded_shapes, padding_values, drop_remainder=True)
