"""The functions that a training step calls (If, While, PartitionedCall and others), and what state they keep.

An operation with the attribute `shared_name` finds its state by that name. Without a value TensorFlow takes the name
of the node, which is another one in a copy: the copy would begin with state of its own.

An operation that draws random numbers from a seed counts its draws in its kernel. A copy draws the same numbers, as
long as nothing runs the original meanwhile.
"""

import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from estimator_trainer.compat.patches import graphs

ASKS = ('IteratorGetNext', 'IteratorGetNextAsOptional')  # for a batch
_READ = {  # operations that take a resource or a variable of TensorFlow 1, or keep a state, and change nothing
    *('ReadVariableOp', 'ResourceGather', 'ResourceGatherNd', 'VarHandleOp', 'VarIsInitializedOp', 'VariableShape'),
    *('IsVariableInitialized', 'RefIdentity', 'RefSwitch', 'RefSelect', 'RefMerge', 'VariableV2', 'Variable'),
    *('LookupTableFind', 'LookupTableFindV2', 'LookupTableSize', 'LookupTableSizeV2', 'LookupTableExportV2'),
    *('HashTableV2', 'MutableHashTableV2', 'QueueSizeV2', 'QueueIsClosedV2', 'Assert', 'Print', 'PrintV2'),
    *ASKS,
}
_CALL_PYTHON = {'PyFunc', 'PyFuncStateless', 'EagerPyFunc'}


class CannotLoop(Exception):
    """The step cannot be the body of a loop. The text says why."""


def is_named(op_def) -> bool:
    """Whether operations of this kind find their state by a name."""
    return any(attr.name == 'shared_name' for attr in op_def.attr)


class Functions:
    """Those of a graph.

    Args:
        graph: tf.Graph.

    Attributes:
        draw: whether any operation that was checked draws random numbers from a seed of its own.
    """

    def __init__(self, graph: tf.Graph):
        definition = graph_pb2.GraphDef()
        graphs.copy_functions(graph, definition)
        self._by_name = {function.signature.name: function for function in definition.library.function}
        self._checked: set[str] = set()
        self.draw = False

    def check(self, op) -> None:
        """Refuses an operation whose copy would have another state.

        Raises:
            CannotLoop: the operation, or one of a function that it calls, keeps its state under the name of its node.
        """
        if is_named(op.op_def) and not op.get_attr('shared_name') and op.op_def.is_stateful:
            raise CannotLoop(f'{op.name} ({op.type}) keeps its state under its own name')
        self.draw = self.draw or draws(op.node_def)
        for node in self.called_by(op, self._checked):
            shared_name = node.attr.get('shared_name')
            if shared_name is not None and not shared_name.s:
                raise CannotLoop(f'{node.name} ({node.op}) in {op.name} keeps its state under its own name')
            self.draw = self.draw or draws(node)

    def called_by(self, op, without: set[str] | None = None) -> list:
        """The nodes of all functions that an operation calls, and of those that these call.

        Args:
            without: names of functions that are left out. Those that were looked into are added.
        """
        seen = set() if without is None else without
        nodes, left = [], calls(op.node_def)
        while left:
            name = left.pop()
            if name in seen or name not in self._by_name:
                continue
            seen.add(name)
            for node in self._by_name[name].node_def:
                nodes.append(node)
                left += calls(node)
        return nodes

    def may_write(self, op) -> bool:
        """Whether an operation may change what lives from step to step. To read a batch does not count."""
        nodes = self.called_by(op)
        if nodes:  # a condition, a loop or a call
            return any(_changes_state(node) for node in nodes)
        if op.type in _CALL_PYTHON:
            return True
        takes_state = any(tensor.dtype == tf.resource for tensor in op.inputs) or any(
            argument.is_ref for argument in op.op_def.input_arg
        )
        return takes_state and not _only_reads(op.type)


def _changes_state(node) -> bool:
    """Whether a node of a function may. Those that call other functions do not; these are asked themselves."""
    if node.op in _CALL_PYTHON:
        return True
    known = graphs.definition(node.op)
    is_pure = known is None or not known.is_stateful
    return not (is_pure or calls(node) or draws(node) or _only_reads(node.op))


def _only_reads(kind: str) -> bool:
    return kind in _READ or kind.startswith('TensorArray')


def draws(node) -> bool:
    """Whether a node draws random numbers from a seed of its own."""
    return 'seed' in node.attr and 'seed2' in node.attr


def calls(node) -> list[str]:
    """The names of the functions in the attributes of a node."""
    nodes = []
    for attr in node.attr.values():
        nodes += [attr.func.name] if attr.HasField('func') else [function.name for function in attr.list.func]
    return nodes
