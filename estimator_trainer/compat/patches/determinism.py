"""Whether operations have to be deterministic.

Touches: tensorflow.python.framework.config.is_op_determinism_enabled
Without it: a step under --deterministic reads TensorFlow's clock, which is an error there, or no step reads it, and
  the waits for batches of some loops are not measured
For: the trainer
"""

from estimator_trainer.compat import lacks


def is_on() -> bool:
    """Whether tf.config.experimental.enable_op_determinism was called; True where nobody can tell."""
    with lacks.or_without():
        from tensorflow.python.framework import config

        return config.is_op_determinism_enabled()
    return True
