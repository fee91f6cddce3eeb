"""Parts of a graph that has been built already.

Touches: Operation._get_control_flow_context, _update_input, _add_control_input and _control_outputs,
  Graph._copy_functions_to_graph_def and DType._is_ref_dtype
Without it: each call takes one step (--steps_per_call), tensors do not travel to parameter servers together, waits for
  batches are not measured, and averages that nobody moves are not found; where the data end or a file is damaged, some
  updates of the step that got no batch may be in the last checkpoint
For: the trainer
"""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any

from estimator_trainer.compat import lacks

if TYPE_CHECKING:
    import tensorflow as tf

_NEAR = 8  # an operation is made at most so many operations after its seed
_numbered: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # graph -> [(operations before it, its seed2)]


def is_in_control_flow(op: tf.Operation) -> bool:
    """Whether an operation is in a loop or a condition of TensorFlow 1."""
    return bool(op._get_control_flow_context())


def replace_input(op: tf.Operation, number: int, tensor: tf.Tensor) -> None:
    """Gives an operation another tensor."""
    op._update_input(number, tensor)


def run_after(op: tf.Operation, other: tf.Operation) -> None:
    """Lets an operation wait for another one."""
    op._add_control_input(other)


def controlled_by(op: tf.Operation) -> list:
    """The operations that wait for an operation, and need not read of it."""
    return op._control_outputs


def copy_functions(graph: tf.Graph, definition: tf.compat.v1.GraphDef) -> None:
    """Puts all functions of a graph into a GraphDef."""
    graph._copy_functions_to_graph_def(definition, 0)


def is_reference(tensor: tf.Tensor) -> bool:
    """Whether it is a variable of TensorFlow 1 itself, and no value."""
    return tensor.dtype._is_ref_dtype


def definition(name: str) -> Any:
    """The OpDef of the operations of this name; None: there are none, or it is a function of a graph.

    Touches: tensorflow.python.framework.op_def_registry
    Without it: `inspect` does not name operations that are missing here, `migrate` does not refuse functions that read
      variables, tables or random numbers, a call takes one step if the step calls functions, and where the data end
      some updates of the step that got no batch may be in the last checkpoint
    For: `inspect`, `migrate` and the trainer
    """
    from tensorflow.python.framework import op_def_registry

    return op_def_registry.get(name)


def note_unseeded() -> None:
    """Notes which random operations have no seed of their own, so that TensorFlow numbers them: see `unseeded`.

    Touches: tensorflow.python.framework.random_seed.get_seed
    Without it: nobody is told which variables begin with values that `--seed` does not decide alone
    For: the trainer
    """
    import tensorflow as tf

    with lacks.or_without():
        from tensorflow.python.framework import random_seed

        original = random_seed.get_seed
        if hasattr(original, '__wrapped__') and original.__name__ == 'noted_seed':
            return

        @functools.wraps(original)
        def noted_seed(op_seed: int | None) -> tuple[int | None, int | None]:
            seeds = original(op_seed)
            graph = tf.compat.v1.get_default_graph()
            if op_seed is None and type(graph) is tf.Graph:
                _numbered.setdefault(graph, []).append((len(graph.get_operations()), seeds[1] or 0))
            return seeds

        noted_seed.__name__ = 'noted_seed'
        random_seed.get_seed = noted_seed


def unseeded(graph: tf.Graph) -> set:
    """The operations of a graph of TensorFlow 1 that have been noted."""
    operations, numbered = graph.get_operations(), set()
    for place, seed2 in _numbered.get(graph, ()):
        for operation in operations[place : place + _NEAR]:
            if 'seed2' in operation.node_def.attr and operation.get_attr('seed2') == seed2:
                numbered.add(operation)
                break
    return numbered
