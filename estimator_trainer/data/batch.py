"""Counts the examples of a batch, leaves them out, or adds examples of zeros.

Features and labels may be tensors, sparse tensors, ragged tensors and NumPy arrays, in dicts and tuples, or None. A
scalar belongs to all examples.
"""

from typing import Any, TypeAlias

import tensorflow as tf

# A tensor (dense, sparse or ragged), a NumPy array, None, or a nested structure of these.
Structure: TypeAlias = Any


def size(*structures: Structure) -> tf.Tensor:
    """The number of examples of a batch, an int32 scalar.

    It is the first dimension of the first tensor that is no scalar. So give the labels first: features may have tensors
    that belong to no single example.

    Args:
        structures: labels and features.
    """
    tensors = [tensor for tensor in _leaves(structures) if tensor.shape.rank != 0]
    known = [tensor for tensor in tensors if tensor.shape.rank is not None]
    for tensor in (*known, *tensors):
        if isinstance(tensor, tf.SparseTensor):
            return tf.cast(tensor.dense_shape[0], tf.int32)
        if isinstance(tensor, tf.RaggedTensor):
            return tf.cast(tensor.nrows(), tf.int32)
        return tf.shape(tensor)[0]
    return tf.constant(1)


def static_size(structure: Structure) -> int | None:
    """The number of examples if the graph knows it, else None."""
    return next(
        (tf.compat.dimension_value(tensor.shape[0]) for tensor in _leaves(structure) if tensor.shape.rank), None
    )


def without_examples(structure: Structure) -> Structure:
    """The batch without its examples: each tensor keeps its type, and has 0 rows."""

    def none_of(tensor: Any) -> Any:
        if tensor is None:
            return None
        if isinstance(tensor, tf.SparseTensor):
            return tf.SparseTensor(tensor.indices[:0], tensor.values[:0], tf.concat([[0], tensor.dense_shape[1:]], 0))
        return tensor if tensor.shape.rank == 0 else tensor[:0]

    return tf.nest.map_structure(none_of, structure)


def with_zeros(structure: Structure, count: tf.Tensor) -> Structure:
    """The batch with `count` (an int32 scalar) more examples at its end, which are zeros.

    Such an example is empty in a sparse tensor, and has one element in a ragged one.
    """

    def longer(tensor: Any) -> Any:
        if tensor is None:
            return None
        if isinstance(tensor, tf.SparseTensor):
            shape = tensor.dense_shape
            return tf.SparseTensor(
                tensor.indices, tensor.values, tf.concat([shape[:1] + tf.cast(count, tf.int64), shape[1:]], 0)
            )
        if isinstance(tensor, tf.RaggedTensor):
            lengths = tensor.row_lengths()
            return tf.RaggedTensor.from_row_lengths(
                longer(tensor.values), tf.concat([lengths, tf.ones([count], lengths.dtype)], 0), validate=False
            )
        if tensor.shape.rank == 0:
            return tensor
        zeros = tf.zeros(tf.concat([[count], tf.shape(tensor)[1:]], 0), tensor.dtype)
        both = tf.concat([tensor, zeros], 0)
        if tensor.shape.rank:
            both.set_shape([None, *tensor.shape.as_list()[1:]])
        return both

    return tf.nest.map_structure(longer, structure)


def _leaves(structure: Structure) -> list[Any]:
    leaves = [leaf for leaf in tf.nest.flatten(structure) if leaf is not None]
    return [leaf if tf.is_tensor(leaf) else tf.convert_to_tensor(leaf) for leaf in leaves]
