"""Whether operations have to be deterministic.

Touches: tensorflow.python.framework.config.is_op_determinism_enabled
Without it: a step under --deterministic reads TensorFlow's clock, which is an error there
For: the trainer
"""

from tensorflow.python.framework import config


def is_on() -> bool:
    """Whether tf.config.experimental.enable_op_determinism was called."""
    return config.is_op_determinism_enabled()
