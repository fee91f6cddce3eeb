"""Parts of a graph that has been built already.

Touches: Operation._get_control_flow_context, _update_input, _add_control_input and _control_outputs,
  Graph._copy_functions_to_graph_def and DType._is_ref_dtype
Without it: each call takes one step (--steps_per_call), tensors do not travel to parameter servers together, waits for
  batches are not measured, and averages that nobody moves are not found; where the data end or a file is damaged, some
  updates of the step that got no batch may be in the last checkpoint
For: the trainer
"""


def is_in_control_flow(op) -> bool:
    """Whether an operation is in a loop or a condition of TensorFlow 1."""
    return bool(op._get_control_flow_context())


def replace_input(op, number: int, tensor) -> None:
    """Gives an operation another tensor."""
    op._update_input(number, tensor)


def run_after(op, other) -> None:
    """Lets an operation wait for another one."""
    op._add_control_input(other)


def controlled_by(op) -> list:
    """The operations that wait for an operation, and need not read of it."""
    return op._control_outputs


def copy_functions(graph, definition) -> None:
    """Puts all functions of a graph into a GraphDef."""
    graph._copy_functions_to_graph_def(definition, 0)


def is_reference(tensor) -> bool:
    """Whether it is a variable of TensorFlow 1 itself, and no value."""
    return tensor.dtype._is_ref_dtype
