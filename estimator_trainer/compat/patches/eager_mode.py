"""Runs operations at once, also while a graph is built or run, and if the job has turned eager execution off.

Touches: tensorflow.python.eager.context.eager_mode
Without it: a job that turned eager execution off cannot have its checkpoints verified, nor its examples parsed, nor
  train on several workers
For: the trainer
"""

import tensorflow as tf

from estimator_trainer.compat import lacks


def at_once():
    """A context manager: operations within it run at once."""
    with lacks.or_without():
        from tensorflow.python.eager import context

        return context.eager_mode()
    return tf.init_scope()  # does the same for a job that has left eager execution on
