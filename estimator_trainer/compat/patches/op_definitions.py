"""What TensorFlow knows of an operation by its name.

Touches: tensorflow.python.framework.op_def_registry
Without it: `inspect` does not name operations that are missing here, and `migrate` does not refuse functions that read
  variables, tables or random numbers
For: `inspect` and `migrate`
"""

from tensorflow.python.framework import op_def_registry


def of(name: str):
    """The OpDef; None: there is no such operation, or it is a function of a graph."""
    return op_def_registry.get(name)
