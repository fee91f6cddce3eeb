"""Takes the fingerprint of the first batch of a data set, while that batch is read for training.

The data set is read once, unchanged and in the same order. For each later batch, the thread of TensorFlow that makes it
calls a small function.
"""

import logging
import threading
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from estimator_trainer.data.batch import Structure

_log = logging.getLogger('estimator_trainer')
_VALUES = 4096  # that are read from the beginning of each tensor
# Other types have no values of their own, such as a data set within a batch, or cannot be serialized everywhere.
_PLAIN = (
    *(tf.bool, tf.string, tf.complex64, tf.complex128),
    *(tf.float16, tf.bfloat16, tf.float32, tf.float64),
    *(tf.int8, tf.int16, tf.int32, tf.int64),
    *(tf.uint8, tf.uint16, tf.uint32, tf.uint64),
)


def telling(batches: Structure, tell: Callable[[str], None]) -> Structure:
    """Wraps a data set, so that `tell` gets the fingerprint of its first batch, once, in a thread of TensorFlow.

    Args:
        batches: the result of an input_fn. Anything but a tf.data.Dataset with tensors of plain types is returned as it
            is.
        tell: gets the fingerprint, in hexadecimal digits.
    """
    if not isinstance(batches, tf.data.Dataset) or not any(map(_is_plain, _flat(batches.element_spec))):
        return batches
    is_done = threading.Event()

    def keep(fingerprint: np.ndarray) -> bool:
        if not is_done.is_set():  # a data set may be iterated over again
            is_done.set()
            tell(fingerprint.tobytes().hex())
        return False

    def pass_on(is_first: tf.Tensor, batch: Structure) -> tuple[tf.Tensor, Structure]:
        tf.cond(is_first, lambda: tf.numpy_function(keep, [_fingerprint(batch)], tf.bool), lambda: tf.constant(False))
        return tf.constant(False), batch

    # `scan` keeps the cardinality. `enumerate` of TensorFlow 2.15 would make an infinite one unknown.
    return batches.scan(tf.constant(True), tf.autograph.experimental.do_not_convert(pass_on))


def _fingerprint(batch: Structure) -> tf.Tensor:
    """A uint8 vector: for each tensor eight bytes for its shape, and eight for its first values."""
    fingerprints = []
    for tensor in filter(_is_plain, _flat(batch)):
        values = tf.reshape(tensor, [-1])[:_VALUES]
        for part in (tf.shape(tensor), values):
            fingerprints.append(tf.fingerprint(tf.reshape(tf.io.serialize_tensor(part), [1]))[0])
    return tf.concat(fingerprints, 0)


def _flat(structure: Structure) -> list[Structure]:
    return tf.nest.flatten(structure, expand_composites=True)


def _is_plain(tensor: Structure) -> bool:
    """Whether this is a tensor of a plain type. A structure may also have a None, such as (features, None)."""
    return getattr(tensor, 'dtype', None) in _PLAIN
