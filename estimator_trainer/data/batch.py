"""Counts the examples of a batch, leaves them out, or adds examples of zeros.

Features and labels may be tensors, sparse tensors, ragged tensors and NumPy arrays, in dicts and tuples. A None may
stand in the place of one. A scalar belongs to all examples.
"""

import tensorflow as tf


def size(*structures):
    """How many examples a batch has, an int32 scalar.

    It is the first dimension of the first tensor that has one; a scalar has none. So name the labels
    first: features may hold things that belong to no single example.

    Args:
        structures: labels and features; None: there are none.
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


def static_size(structure):
    """`size` where the graph knows it, else None."""
    return next((tensor.shape[0] for tensor in _leaves(structure) if tensor.shape.rank), None)


def without_examples(structure):
    """The same batch with none of its examples."""

    def none_of(tensor):
        if tensor is None:
            return None
        if isinstance(tensor, tf.SparseTensor):
            return tf.SparseTensor(tensor.indices[:0], tensor.values[:0], tf.concat([[0], tensor.dense_shape[1:]], 0))
        return tensor if tensor.shape.rank == 0 else tensor[:0]

    return tf.nest.map_structure(none_of, structure)


def with_zeros(structure, count):
    """The same batch with `count` more examples at its end, made of zeros: an int32 scalar. A sparse
    example is empty, a ragged one has one element."""

    def longer(tensor):
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
            both.set_shape([None, *tensor.shape[1:]])
        return both

    return tf.nest.map_structure(longer, structure)


def _leaves(structure):
    leaves = [leaf for leaf in tf.nest.flatten(structure) if leaf is not None]
    return [leaf if tf.is_tensor(leaf) else tf.convert_to_tensor(leaf) for leaf in leaves]
