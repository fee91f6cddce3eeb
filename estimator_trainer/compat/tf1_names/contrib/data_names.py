"""tf.contrib.lookup, whose arguments have other names than those of tf.lookup, and functions of tf.contrib.data.

Touches: lookup_ops in tensorflow.python.ops
Without it: programs cannot make the tables of tf.contrib.lookup
For: programs under `compat run --tf1`

Behaviour: https://www.tensorflow.org/versions/r1.15/api_docs/python/tf/contrib/lookup

tf.data has replaced the functions of tf.contrib.data by arguments of other functions.
"""

import tensorflow as tf
from tensorflow.python.ops import lookup_ops


class HashTable(lookup_ops.StaticHashTableV1):
    """`shared_name` was for sessions that share a table; here each graph has its own."""

    def __init__(self, initializer, default_value, shared_name=None, name=None):
        super().__init__(initializer, default_value, name=name or shared_name)


class MutableHashTable(lookup_ops.MutableHashTable):
    def __init__(
        self, key_dtype, value_dtype, default_value, shared_name=None, name='MutableHashTable', checkpoint=True
    ):
        super().__init__(key_dtype, value_dtype, default_value, name=shared_name or name, checkpoint=checkpoint)


class MutableDenseHashTable(lookup_ops.DenseHashTable):
    def __init__(
        self,
        key_dtype,
        value_dtype,
        default_value,
        empty_key,
        deleted_key,
        initial_num_buckets=None,
        shared_name=None,
        name='MutableDenseHashTable',
        checkpoint=True,
    ):
        name = shared_name or name
        super().__init__(
            key_dtype, value_dtype, default_value, empty_key, deleted_key, initial_num_buckets, name, checkpoint
        )


def index_table_from_tensor(
    mapping, num_oov_buckets=0, default_value=-1, hasher_spec=lookup_ops.FastHashSpec, name=None
):
    return lookup_ops.index_table_from_tensor(
        mapping, num_oov_buckets, default_value, hasher_spec, tf.convert_to_tensor(mapping).dtype, name
    )


def index_to_string_table_from_tensor(mapping, default_value='UNK', name=None):
    return lookup_ops.index_to_string_table_from_tensor(mapping, default_value, name)


def string_to_index(tensor, mapping, default_value=-1, name=None):
    table = index_table_from_tensor(mapping, default_value=default_value, name=name)
    return table.lookup(tensor)


def index_to_string(tensor, mapping, default_value='UNK', name=None):
    return index_to_string_table_from_tensor(mapping, default_value, name).lookup(tf.cast(tensor, tf.int64))


def batch_and_drop_remainder(batch_size):
    """For Dataset.apply: batches of exactly batch_size examples."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(batch_size, padded_shapes, padding_values=None):
    """For Dataset.apply: padded batches of exactly batch_size examples."""
    return lambda dataset: dataset.padded_batch(batch_size, padded_shapes, padding_values, drop_remainder=True)
