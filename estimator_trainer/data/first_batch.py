"""Takes the fingerprint of the first batch that a data set gives, while that batch is read for training.

The data set is read once, unchanged and in the same order. For each later batch, the thread of TensorFlow's that makes
it calls a small function.
"""

import logging
from collections.abc import Callable

import tensorflow as tf

_log = logging.getLogger('estimator_trainer')
_VALUES = 4096  # of each tensor, from its beginning
# Others have no values of their own, such as a data set within a batch, or cannot be serialized everywhere.
_PLAIN = (
    *(tf.bool, tf.string, tf.complex64, tf.complex128),
    *(tf.float16, tf.bfloat16, tf.float32, tf.float64),
    *(tf.int8, tf.int16, tf.int32, tf.int64),
    *(tf.uint8, tf.uint16, tf.uint32, tf.uint64),
)


def told(batches, tell: Callable[[str], None]):
    """The same data set; `tell` gets the fingerprint of its first batch, once, in a thread of TensorFlow's.

    Args:
        batches: what an input_fn has returned. Anything but a tf.data.Dataset with tensors of plain types is returned
            as it is.
    """
    if not isinstance(batches, tf.data.Dataset) or not any(map(_is_plain, _flat(batches.element_spec))):
        return batches
    told_already = []

    def keep(found):
        if not told_already:  # a data set may be iterated over again
            told_already.append(True)
            tell(found.tobytes().hex())
        return False

    def pass_on(is_first, batch):
        tf.cond(is_first, lambda: tf.numpy_function(keep, [_fingerprint(batch)], tf.bool), lambda: tf.constant(False))
        return tf.constant(False), batch

    # The cardinality stays; that of TensorFlow 2.15's `enumerate` is never infinite.
    return batches.scan(tf.constant(True), tf.autograph.experimental.do_not_convert(pass_on))


def _fingerprint(batch):
    """Eight bytes for the shape of each tensor and its first values, in one vector."""
    found = []
    for tensor in filter(_is_plain, _flat(batch)):
        values = tf.reshape(tensor, [-1])[:_VALUES]
        for part in (tf.shape(tensor), values):
            found.append(tf.fingerprint(tf.reshape(tf.io.serialize_tensor(part), [1]))[0])
    return tf.concat(found, 0)


def _flat(structure):
    return tf.nest.flatten(structure, expand_composites=True)


def _is_plain(tensor) -> bool:
    """A structure may have a None in the place of a tensor, such as (features, None)."""
    return getattr(tensor, 'dtype', None) in _PLAIN
