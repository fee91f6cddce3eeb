"""The operations of a training step: which of them it needs, what they change, and how they treat the batch.

Not all updates of a step read its batch: AdamOptimizer of TensorFlow 1 first decays the moments of a whole embedding
table. If the batch never comes, because the data have ended or a file is damaged, a session has done such updates all
the same, and what is saved then is the state of no step. So `wait_for_batch` lets them wait. Who runs such an operation
outside the step would read a batch by it: operations that only read do not wait, and nothing waits where a hook of the
job's own may run anything.

An operation with the attribute `shared_name` finds its state by that name. Without a value TensorFlow takes the name
of the node, which is another one in a copy: the copy would begin with state of its own.

An operation that draws random numbers from a seed counts its draws in its kernel. A copy draws the same numbers, as
long as nothing runs the original meanwhile.
"""

from collections.abc import Callable, Iterable

import tensorflow as tf
from tensorflow.core.framework import graph_pb2, node_def_pb2, op_def_pb2

from estimator_trainer.compat import lacks
from estimator_trainer.compat.patches import eager_context, graphs

v1 = tf.compat.v1
ASKS = ('IteratorGetNext', 'IteratorGetNextAsOptional')  # for a batch
_READ = {  # operations that take a resource or a variable of TensorFlow 1, or keep a state, and change nothing
    *('ReadVariableOp', 'ResourceGather', 'ResourceGatherNd', 'VarHandleOp', 'VarIsInitializedOp', 'VariableShape'),
    *('IsVariableInitialized', 'RefIdentity', 'RefSwitch', 'RefSelect', 'RefMerge', 'VariableV2', 'Variable'),
    *('LookupTableFind', 'LookupTableFindV2', 'LookupTableSize', 'LookupTableSizeV2', 'LookupTableExportV2'),
    *('HashTableV2', 'MutableHashTableV2', 'QueueSizeV2', 'QueueIsClosedV2', 'Assert', 'Print', 'PrintV2'),
    *ASKS,
}
CONTROL_FLOW_OF_V1 = {'Enter', 'Exit', 'Switch', 'Merge', 'NextIteration', 'RefEnter', 'RefSwitch'}
_CALLS = {'PartitionedCall', 'StatefulPartitionedCall'}
CALL_PYTHON = {'PyFunc', 'PyFuncStateless', 'EagerPyFunc'}


def needed(ops: Iterable[tf.Operation]) -> list[tf.Operation]:
    """The operations without which some operations cannot run, and these."""
    return _reached(ops, lambda op: [*(tensor.op for tensor in op.inputs), *op.control_inputs])


def following(ops: Iterable[tf.Operation]) -> set[tf.Operation]:
    """The operations that wait for any of these, and these."""
    return set(_reached(ops, lambda op: [*_readers(op), *graphs.controlled_by(op)]))


def computed_with(ops: Iterable[tf.Operation]) -> set[tf.Operation]:
    """The operations that compute with what any of these gives, and these."""
    return set(_reached(ops, _readers))


def _readers(op: tf.Operation) -> list[tf.Operation]:
    return [consumer for tensor in op.outputs for consumer in tensor.consumers()]


def _reached(
    ops: Iterable[tf.Operation], neighbours: Callable[[tf.Operation], list[tf.Operation]]
) -> list[tf.Operation]:
    seen: dict[tf.Operation, None] = {}
    left = list(ops)
    while left:
        op = left.pop()
        if op not in seen:
            seen[op] = None
            left += neighbours(op)
    return list(seen)


def wait_for_batch(targets: Iterable[tf.Operation], hooks: Iterable[tf.compat.v1.train.SessionRunHook] = ()) -> None:
    """Lets what the targets need wait for the batches of the step, if it may change something and does not wait yet.

    It adds no operation: the seeds of a graph count its operations. Operations in loops and conditions of TensorFlow 1
    are left as they are.

    Args:
        targets: operations of the step.
        hooks: all of the job.
    """
    if any(_may_run_anything(hook) for hook in hooks):
        return
    with lacks.or_without():
        _let_wait(needed(targets))


def _may_run_anything(hook: tf.compat.v1.train.SessionRunHook) -> bool:
    """TensorFlow's own hooks run what belongs to the step together with the step, but for FinalOpsHook."""
    package = type(hook).__module__.partition('.')[0]
    return isinstance(hook, v1.train.FinalOpsHook) or package not in ('tensorflow', 'tensorflow_estimator')


def _let_wait(ops: list[tf.Operation]) -> None:
    functions = Functions(ops[0].graph)
    writes = [op for op in ops if functions.may_write(op) and not graphs.is_in_control_flow(op)]
    # What Python does, and queues, may give the data: the batch may wait for them.
    writes = [op for op in writes if op.type not in CALL_PYTHON and 'Queue' not in op.type]
    for asking in ops:
        if asking.type not in ASKS or graphs.is_in_control_flow(asking):
            continue
        after, before = following([asking]), set(needed([asking]))
        for op in writes:
            if op not in after and op not in before:
                graphs.run_after(op, asking)


def measured_wait(ops: Iterable[tf.Operation]) -> tf.Tensor | None:
    """How long a step waits for its iterators, in seconds, a float64 scalar.

    The operations are added when the step is complete: the seeds of a graph count its operations.

    Args:
        ops: those that the step runs, whether it is measured or not (`needed`). To measure any other one would run it.

    Returns:
        None where that cannot be measured: the step asks no iterator, asks one under a condition of TensorFlow 1, or
        may not read a clock (--deterministic).
    """
    with lacks.or_without():
        return _measured(ops)
    return None


def _measured(ops: Iterable[tf.Operation]) -> tf.Tensor | None:
    asking = [op for op in ops if op.type in ASKS]
    if not asking or eager_context.is_deterministic() or any(graphs.is_in_control_flow(op) for op in asking):
        return None
    graph = asking[0].graph
    with graph.device(None), graph.colocate_with(None, ignore_existing=True), graph.control_dependencies(None):
        with tf.device(tf.DeviceSpec.from_string(asking[0].device).replace(device_type='CPU', device_index=0)):
            began = tf.timestamp()
            for op in asking:
                graphs.run_after(op, began.op)
            with tf.control_dependencies(asking):
                return tf.timestamp() - began


class CannotLoop(Exception):
    """The step cannot be the body of a loop. The text says why."""


def is_named(op_def: op_def_pb2.OpDef) -> bool:
    """Whether operations of this kind find their state by a name."""
    return any(attr.name == 'shared_name' for attr in op_def.attr)


class Functions:
    """Those of a graph.

    Args:
        graph: tf.Graph.
    """

    def __init__(self, graph: tf.Graph):
        definition = graph_pb2.GraphDef()
        graphs.copy_functions(graph, definition)
        self._by_name = {function.signature.name: function for function in definition.library.function}
        self._checked: set[str] = set()

    def check(self, op: tf.Operation) -> None:
        """Refuses an operation whose copy would have another state.

        Raises:
            CannotLoop: the operation, or one of a function that it calls, keeps its state under the name of its node.
        """
        if is_named(op.op_def) and not op.get_attr('shared_name') and op.op_def.is_stateful:
            raise CannotLoop(f'{op.name} ({op.type}) keeps its state under its own name')
        for node in self.called_by(op, self._checked):
            shared_name = node.attr.get('shared_name')
            if shared_name is not None and not shared_name.s:
                raise CannotLoop(f'{node.name} ({node.op}) in {op.name} keeps its state under its own name')

    def called_by(self, op: tf.Operation, without: set[str] | None = None) -> list[node_def_pb2.NodeDef]:
        """The nodes of all functions that an operation calls, and of those that these call.

        Args:
            without: names of functions that are left out. Those that were looked into are added.
        """
        return self._called(op.node_def, set() if without is None else without)

    def _called(self, node: node_def_pb2.NodeDef, seen: set[str]) -> list[node_def_pb2.NodeDef]:
        nodes, left = [], [node.op, *calls(node)]
        while left:
            name = left.pop()
            if name in seen or name not in self._by_name:
                continue
            seen.add(name)
            for node in self._by_name[name].node_def:
                nodes.append(node)
                left += [node.op, *calls(node)]
        return nodes

    def is_one(self, kind: str) -> bool:
        """Whether operations of this type call a function of that name: the legacy ones of function.Defun."""
        return kind in self._by_name

    def is_call(self, kind: str) -> bool:
        """Whether operations of this type call a function."""
        return kind in _CALLS or self.is_one(kind)

    def draws(self, op: tf.Operation) -> bool:
        """Whether an operation, or one of a function that it calls, draws random numbers from a seed of its own."""
        return any(map(draws, [op.node_def, *self.called_by(op)]))

    def draws_in_call(self, op: tf.Operation) -> bool:
        """Whether an operation draws in a function that it calls, in a loop or a condition or not. How often that has
        drawn may be kept by each set of fetches of a session, and not by the session."""
        calling = [node for node in [op.node_def, *self.called_by(op)] if self.is_call(node.op)]
        return any(draws(node) for each in calling for node in self._called(each, set()))

    def may_write(self, op: tf.Operation) -> bool:
        """Whether an operation may change what lives from step to step. To read a batch does not count."""
        nodes = self.called_by(op)
        if nodes:  # a condition, a loop or a call
            return any(_changes_state(node) for node in nodes)
        if op.type in CALL_PYTHON:
            return True
        takes_state = any(tensor.dtype == tf.resource for tensor in op.inputs) or any(
            argument.is_ref for argument in op.op_def.input_arg
        )
        return takes_state and not _only_reads(op.type)


def _changes_state(node: node_def_pb2.NodeDef) -> bool:
    """Whether a node of a function may. Those that call other functions do not; these are asked themselves."""
    if node.op in CALL_PYTHON:
        return True
    known = graphs.definition(node.op)
    is_pure = known is None or not known.is_stateful
    return not (is_pure or calls(node) or draws(node) or _only_reads(node.op))


def _only_reads(kind: str) -> bool:
    return kind in _READ or kind.startswith('TensorArray')


def draws(node: node_def_pb2.NodeDef) -> bool:
    """Whether a node draws random numbers from a seed of its own."""
    return 'seed' in node.attr and 'seed2' in node.attr


def draw_apart(definition: graph_pb2.GraphDef) -> None:
    """Gives a definition other seeds: what it draws no longer depends on what its original draws. Functions that draw
    get other names."""
    functions = {function.signature.name: function for function in definition.library.function}
    drawing, before = set[str](), -1
    while len(drawing) > before:
        before = len(drawing)
        for name, function in functions.items():
            if any(draws(node) or drawing & {node.op, *calls(node)} for node in function.node_def):
                drawing.add(name)
    renamed = {name: f'{name}_apart' for name in drawing}
    for name in drawing:
        functions[name].signature.name = renamed[name]
    for gradient in definition.library.gradient:
        gradient.function_name = renamed.get(gradient.function_name, gradient.function_name)
        gradient.gradient_func = renamed.get(gradient.gradient_func, gradient.gradient_func)
    for node in [*definition.node, *(node for name in drawing for node in functions[name].node_def)]:
        node.op = renamed.get(node.op, node.op)
        for attr in node.attr.values():
            for function in [attr.func] if attr.HasField('func') else attr.list.func:
                function.name = renamed.get(function.name, function.name)
        if draws(node) and (node.attr['seed'].i or node.attr['seed2'].i):  # else TensorFlow chooses them
            node.attr['seed2'].i = (node.attr['seed2'].i + 1_000_000_007) % 2**31  # its neighbours have seed2 + few


def calls(node: node_def_pb2.NodeDef) -> list[str]:
    """The names of the functions in the attributes of a node. A legacy function is the type of those that call it."""
    nodes = []
    for attr in node.attr.values():
        nodes += [attr.func.name] if attr.HasField('func') else [function.name for function in attr.list.func]
    return nodes
