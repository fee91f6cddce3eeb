"""A function that TensorFlow traced once, kept as text. Its source is not needed any more."""

from __future__ import annotations

import base64

import tensorflow as tf


class TracedFunction(tf.Module):
    """A function of one tensor that runs the very operations that were traced.

    Args:
        graph: a `GraphDef` of these operations, serialized and in base64.
        input, output: names of the tensors in it that are argument and result.
        shape, dtype: shape (None where it may vary) and dtype of the argument.
    """

    def __init__(self, graph: str, input: str, output: str, shape: list, dtype: str) -> None:
        super().__init__()
        graph_def = tf.compat.v1.GraphDef.FromString(base64.b64decode(graph))

        def imported(argument: tf.Tensor) -> tf.Tensor:
            return tf.import_graph_def(graph_def, {input: argument}, [output], name='')[0]

        self.dtype = tf.as_dtype(dtype)
        with tf.init_scope():  # a layer may be made while a graph is built
            self._function = tf.compat.v1.wrap_function(imported, [tf.TensorSpec(shape, self.dtype)])

    def __call__(self, argument: tf.Tensor) -> tf.Tensor:
        return self._function(tf.cast(argument, self.dtype))
