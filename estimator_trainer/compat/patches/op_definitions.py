"""What TensorFlow knows of an operation by its name.

Touches: tensorflow.python.framework.op_def_registry
Without it: `inspect` does not name operations that are missing here, `migrate` does not refuse functions that read
  variables, tables or random numbers, a call takes one step if the step calls functions, and where the data end some
  updates of the step that got no batch may be in the last checkpoint
For: `inspect`, `migrate` and the trainer
"""

from tensorflow.python.framework import op_def_registry


def of(name: str):
    """The OpDef; None: there is no such operation, or it is a function of a graph."""
    return op_def_registry.get(name)
