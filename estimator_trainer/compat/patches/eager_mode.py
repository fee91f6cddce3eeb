"""Runs operations at once, also while a graph is built or run, and if the job has turned eager execution off.

Touches: tensorflow.python.eager.context.eager_mode
Without it: a job that turned eager execution off cannot have its checkpoints verified, nor its examples parsed, nor
  train on several workers
For: the trainer
"""

from tensorflow.python.eager import context


def at_once():
    """A context manager: operations within it run at once."""
    return context.eager_mode()
