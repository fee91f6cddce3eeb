"""Traces a function of an Estimator's program, so that it can be run without its source.

The results are arguments of `TracedFunction` in owned/traced_function.py, as JSON.
"""

import base64

import tensorflow as tf

from estimator_trainer.compat.patches import graphs

GLOBAL_STEP = 'global_step'
_READS = ('ReadVariableOp', 'Identity')
# Operations that count as stateful, and do nothing but check or call other ones, which are looked at as well.
_HARMLESS = ('Assert', 'If', 'While', 'Case', 'StatefulPartitionedCall')


def normalizer(call, shape, dtype) -> dict:
    """The normalizer_fn of a numeric column, traced in a graph as an Estimator builds it.

    Args:
        call: the function.
        shape: of its argument; None where a size may vary.
        dtype: of the feature. Keras 2 makes float32 of every floating-point type before the function sees it.

    Raises:
        ValueError: the function does not give one tensor, or reads variables, tables, random numbers or Python.
    """
    dtype = tf.float32 if tf.as_dtype(dtype).is_floating else dtype
    with tf.Graph().as_default() as graph:
        argument = tf.compat.v1.placeholder(dtype, shape, name='argument')
        result = call(argument)
    if not isinstance(result, tf.Tensor) or result.graph is not graph:
        raise ValueError(f'{_name(call)} must give one tensor; it gave {result!r}.')
    return _traced(graph.as_graph_def(), argument, result, _name(call))


def learning_rate(tensor) -> dict:
    """A tensor that a model_fn computed from the global step, as a function of the step.

    Raises:
        ValueError: the tensor depends on anything else than the global step and constants.
    """
    graph_def = tensor.graph.as_graph_def()
    step = tensor.graph.get_tensor_by_name(f'{GLOBAL_STEP}:0')
    reads = {
        f'{node.name}:0': node.name
        for node in graph_def.node
        if node.op in _READS and node.input and node.input[0].partition(':')[0] == GLOBAL_STEP
    }
    dtype = next((tensor.graph.get_tensor_by_name(read).dtype for read in reads), step.dtype)
    with tf.Graph().as_default() as graph:
        argument = tf.compat.v1.placeholder(dtype, [], name='argument_step')
        (result,) = tf.import_graph_def(
            graph_def, {read: argument for read in reads}, [tensor.name], name='learning_rate'
        )
    return _traced(graph.as_graph_def(), argument, result, f'The learning rate {tensor.name}')


def _traced(graph_def, argument, result, what) -> dict:
    needed = tf.compat.v1.graph_util.extract_sub_graph(graph_def, [result.op.name])
    _keep_what_is_called(needed)
    for node in [*needed.node, *(node for function in needed.library.function for node in function.node_def)]:
        definition = graphs.definition(node.op)  # None: the operation is a function of this graph
        stateful = node.op == 'Placeholder' or (definition is not None and definition.is_stateful)
        if stateful and node.name != argument.op.name and node.op not in _HARMLESS:
            raise ValueError(f'{what} depends on more than its argument: the operation {node.name} ({node.op}).')
    if not any(node.name == argument.op.name for node in needed.node):
        needed.node.add().CopyFrom(argument.op.node_def)  # a constant
    return {
        'graph': base64.b64encode(needed.SerializeToString()).decode(),
        'input': argument.name,
        'output': result.name,
        'shape': argument.shape.as_list(),
        'dtype': argument.dtype.name,
    }


def _keep_what_is_called(graph_def) -> None:
    """Drops functions that nothing here calls: extract_sub_graph keeps those of the whole graph."""
    functions = {function.signature.name: function for function in graph_def.library.function}
    called, nodes = {}, list(graph_def.node)
    while nodes:
        node = nodes.pop()
        names = {node.op}
        for value in node.attr.values():
            names |= {value.func.name, *(function.name for function in value.list.func)}
        for name in names & functions.keys() - called.keys():
            called[name] = functions[name]
            nodes += functions[name].node_def
    library = type(graph_def.library)(
        function=called.values(), gradient=[pair for pair in graph_def.library.gradient if pair.function_name in called]
    )
    graph_def.library.CopyFrom(library)


def _name(call) -> str:
    return f'The function {getattr(call, "__qualname__", call)}'
