"""A part of the graph of a step: which of its operations are copied into the body of a loop, and which stay outside.

Only three kinds of operations stay, and all read nothing that a step computes: the handles of what lives from step to
step (variables, iterators, tables, queues), placeholders, and large constants, such as embeddings that are not trained:
a graph with two copies of those may be larger than the 2 GiB that TensorFlow can write.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from estimator_trainer.compat.patches import graphs
from estimator_trainer.training import step_graph
from estimator_trainer.training.step_graph import CannotLoop

v1 = tf.compat.v1
_OF_VARIABLES = re.compile(
    'ReadVariableOp|Assign(Add|Sub)?VariableOp|Resource(Gather|Scatter|Apply|SparseApply)|VarIsInit'
)
_MANY_MULTIPLICATIONS = re.compile('Conv|Pool|Einsum|FFT|Svd|Qr|Eig|Cholesky|Matri|RNN|GRU|LSTM|LRN')
_MOST_NUMBERS, _MOST_MULTIPLICATIONS = 2**18, 2**22  # of a short step
_LARGEST_COPIED = 2**26  # bytes of a constant
_CURE = (
    'to get those of TensorFlow 2, call tf.compat.v1.enable_resource_variables() and '
    'tf.compat.v1.enable_control_flow_v2() in the module of the job, after its imports'
)
_PLACE = b'loc:@'  # of an operation that has to be where another one is


class Part:
    """The operations that some targets need.

    Args:
        graph: theirs.
        targets: operations.
        without: operations whose results are given to the copy.

    Attributes:
        ops: those to be copied.
        borders: those that stay where they are, and that `ops` read from. They read nothing of `ops`.
        drawing: those of `ops` that draw random numbers from a seed of their own.
        drawn_in_call: the name of one of `ops` that calls a function which draws so, or None.
        has_ordered_calls: whether any of `ops` calls a function that takes a resource which `ops` may change.
        is_function: whether `ops` read nothing but their inputs, and keep no state.
    """

    def __init__(
        self, graph: tf.Graph, targets: Iterable[tf.Operation], without: Collection[tf.Operation] = frozenset()
    ):
        self._graph = graph
        self.ops, self.borders = set[tf.Operation](), set[tf.Operation]()
        self._functions = functions = step_graph.Functions(graph)
        left = list(targets)
        while left:
            op = left.pop()
            if op in self.ops or op in self.borders or op in without:
                continue
            if _stays(op):
                self.borders.add(op)
                continue
            _check(op)
            functions.check(op)
            self.ops.add(op)
            left += _reads(op)
        self.drawing = {op for op in self.ops if functions.draws(op)}
        calls = [op for op in self.ops if functions.is_call(op.type)]
        changed = {handle for op in self.ops if calls and functions.may_write(op) for handle in _resources(op)}
        self.drawn_in_call = next((op.name for op in self.drawing if functions.draws_in_call(op)), None)
        self.has_ordered_calls = any(handle in changed for op in calls for handle in _resources(op))
        self.is_function = not self.borders and not any(op.op_def.is_stateful for op in self.ops)

    def adds_one_to(self, handle: tf.Tensor) -> bool:
        """Whether it is certain that the operations add 1 to a variable, and do nothing else to it.

        Args:
            handle: the variable's handle, a resource tensor of this graph.
        """
        name = handle.op.get_attr('shared_name') if handle.op.type == 'VarHandleOp' else b''
        if not name or any(node.op == 'VarHandleOp' for op in self.ops for node in self._functions.called_by(op)):
            return False
        handles = {op for op in self.borders if op.type == 'VarHandleOp' and op.get_attr('shared_name') == name}
        users = [op for op in self.ops if any(tensor.op in handles for tensor in op.inputs)]
        writers = [op for op in users if op.type not in ('ReadVariableOp', 'VarIsInitializedOp')]
        return len(writers) == 1 and writers[0].type == 'AssignAddVariableOp' and _is_one(writers[0].inputs[1].op)

    def is_short(self) -> bool:
        """Whether it is certain that the operations compute so little that to hand them to other threads costs more
        than it gives, and that none of them waits for anything."""
        numbers = multiplications = 0
        for op in self.ops:
            has_state = op.op_def.is_stateful and not step_graph.draws(op.node_def)
            if op.type in step_graph.CALL_PYTHON or (has_state and not _OF_VARIABLES.match(op.type)):
                return False
            if (
                step_graph.calls(op.node_def)
                or self._functions.is_one(op.type)
                or _MANY_MULTIPLICATIONS.search(op.type)
            ):
                return False
            sizes = [_size(tensor) for tensor in op.outputs]
            if None in sizes:
                return False
            if op.type not in ('ReadVariableOp', 'Identity'):  # which copy nothing
                numbers += sum(size or 0 for size in sizes)
            if 'MatMul' in op.type:
                multiplications += (_size(op.inputs[0]) or math.inf) * op.outputs[0].shape[-1]
        return numbers <= _MOST_NUMBERS and multiplications <= _MOST_MULTIPLICATIONS

    def inputs_from(self, ops: Collection[tf.Operation]) -> list[tf.Tensor]:
        """The tensors of other operations that this part reads."""
        return [tensor for op in self._ordered() for tensor in op.inputs if tensor.op in ops]

    def copy(
        self,
        tensors: Sequence[tf.Tensor],
        ops: Sequence[tf.Operation] = (),
        given: Mapping[Any, tf.Tensor] | None = None,
        draws_apart: bool = False,
    ) -> tuple[list[tf.Tensor], list[tf.Operation]]:
        """Copies the operations into the graph that is being built.

        Args:
            tensors: of these operations, or of `given`.
            ops: some of the operations.
            given: {reference of a tensor: what stands for it in the copy}.
            draws_apart: the copy draws other random numbers than the original, which runs as well.

        Returns:
            (the copies of `tensors`, the copies of `ops`)
        """
        graph = v1.get_default_graph()
        stands_for = {reference.deref().name: _inside(graph, value) for reference, value in (given or {}).items()}
        stands_for |= {tensor.name: _inside(graph, tensor) for op in self.borders for tensor in op.outputs}
        definition = self._definition()
        if draws_apart:
            step_graph.draw_apart(definition)
        needed = {_full(name) for node in definition.node for name in node.input}
        copied = [tensor.name for tensor in tensors if tensor.name not in stands_for]
        returned = tf.import_graph_def(
            definition,
            {name: value for name, value in stands_for.items() if name in needed},
            [*(op.name for op in ops), *copied],
            name='step',
        )
        copies = stands_for | dict(zip(copied, returned[len(ops) :]))
        return [copies[tensor.name] for tensor in tensors], returned[: len(ops)]

    def _ordered(self) -> list[tf.Operation]:
        return [op for op in self._graph.get_operations() if op in self.ops]

    def _definition(self) -> graph_pb2.GraphDef:
        names = {op.name for op in self.ops}
        definition = graph_pb2.GraphDef(versions=self._graph.graph_def_versions)
        graphs.copy_functions(self._graph, definition)
        for op in self._ordered():
            node = definition.node.add()
            node.CopyFrom(op.node_def)
            # A control input from elsewhere is left out: what stays outside has nothing to do.
            node.input[:] = [name for name in node.input if not name.startswith('^') or name[1:] in names]
            places = [
                place
                for place in node.attr['_class'].list.s
                if not place.startswith(_PLACE) or place[len(_PLACE) :].decode() in names
            ]
            del node.attr['_class']
            if places:
                node.attr['_class'].list.s.extend(places)
            # The job may have set shapes that TensorFlow cannot infer. The import takes them from this attribute.
            node.attr['_output_shapes'].list.shape.extend(tensor.shape.as_proto() for tensor in op.outputs)
        return definition


class ReadAhead:
    """The batches of a step that has several, read by a loop of their own before anything computes with them.

    Args:
        asking: the operations of the first batch that ask for it, at least one.
        tensors: computed from that batch alone, numbers.
        count: batches of a step.

    Attributes:
        part: the operations of the loop.
        sums: of `tensors` over the step.
    """

    def __init__(self, asking: Sequence[tf.Operation], tensors: Sequence[tf.Tensor], count: int):
        self._outputs = [tensor for op in asking for tensor in op.outputs]
        self.part = Part(asking[0].graph, [*asking, *(tensor.op for tensor in tensors)])

        def read_another(number: tf.Tensor, *before: Any) -> tuple:
            copies, _ = self.part.copy([*self._outputs, *tensors])
            arrays = [array.write(number, copy) for array, copy in zip(before[: len(self._outputs)], copies)]
            sums = [total + copy for total, copy in zip(before[len(arrays) :], copies[len(arrays) :])]
            with tf.control_dependencies(copies):
                return number + 1, *arrays, *sums

        arrays = [
            tf.TensorArray(tensor.dtype, count, infer_shape=False, element_shape=tensor.shape)
            for tensor in self._outputs
        ]
        with tf.control_dependencies(asking):
            begins = tf.identity(tf.constant(1))
        _, *results = tf.while_loop(
            lambda number, *_: number < count,
            read_another,
            (begins, *arrays, *tensors),
            parallel_iterations=1,
            name='batches',
        )
        self._arrays, self.sums = results[: len(arrays)], results[len(arrays) :]

    def read(self, number: tf.Tensor) -> dict[Any, tf.Tensor]:
        """{reference of an output of `asking`: the same output for batch `number` of the step, from 1}"""
        return {tensor.ref(): array.read(number) for tensor, array in zip(self._outputs, self._arrays)}


def _stays(op: tf.Operation) -> bool:
    """Whether an operation stays outside the loop: a handle of what lives from step to step, a placeholder or a large
    constant.

    Raises:
        CannotLoop: it has to stay outside, but reads what a step computes.
    """
    if op.type == 'Placeholder':
        return not op.control_inputs
    if op.type == 'PlaceholderWithDefault':
        return all(_is_fixed(read) for read in _reads(op))  # else a part of the step comes before it
    if op.type == 'Const':
        size = _size(op.outputs[0]) or 0
        return not op.control_inputs and size * op.outputs[0].dtype.size > _LARGEST_COPIED
    if not _is_handle(op):
        return False  # other handles, such as those that a While returns, are made anew in each step
    if not all(_is_fixed(read) for read in _reads(op)):
        raise CannotLoop(f'{op.name} ({op.type}) is shared by all steps, but reads what a step computes')
    return True


def _is_fixed(op: tf.Operation) -> bool:
    """Whether an operation computes the same in each step, whatever the step does: it and all that it reads have no
    state."""
    seen, left = set[tf.Operation](), [op]
    while left:
        op = left.pop()
        if op in seen:
            continue
        seen.add(op)
        reads_a_resource = any(tensor.dtype == tf.resource for tensor in op.inputs)
        if reads_a_resource or (op.type != 'Placeholder' and not _is_handle(op) and op.op_def.is_stateful):
            return False
        left += _reads(op)
    return True


def _is_handle(op: tf.Operation) -> bool:
    """Whether an operation gives a resource that is found by its name in every step."""
    return step_graph.is_named(op.op_def) and any(tensor.dtype == tf.resource for tensor in op.outputs)


def _size(tensor: tf.Tensor) -> int | None:
    """How many numbers it has; None: that is not known, or it has no numbers."""
    if tensor.dtype in (tf.string, tf.variant, tf.resource):
        return None
    return tensor.shape.num_elements()


def _is_one(op: tf.Operation) -> bool:
    return op.type == 'Const' and bool(np.all(tf.make_ndarray(op.get_attr('value')) == 1))


def _resources(op: tf.Operation) -> list[Any]:
    return [tensor.ref() for tensor in op.inputs if tensor.dtype == tf.resource]


def _check(op: tf.Operation) -> None:
    if any(graphs.is_reference(tensor) for tensor in op.outputs):
        raise CannotLoop(f'{op.name} belongs to a variable of TensorFlow 1 ({_CURE})')
    if op.type in step_graph.CONTROL_FLOW_OF_V1:
        raise CannotLoop(f'{op.name} belongs to a loop or a condition of TensorFlow 1 ({_CURE})')


def _reads(op: tf.Operation) -> list[tf.Operation]:
    """The operations that an operation waits for."""
    return [*(tensor.op for tensor in op.inputs), *op.control_inputs]


def _inside(graph: tf.Graph, tensor: tf.Tensor) -> tf.Tensor:
    """A tensor of this graph or of one around it, as a tensor of this graph."""
    return tensor if tensor.graph is graph else graph.capture(tensor)


def _full(name: str) -> str:
    """An input of a node, 'op', 'op:1' or '^op', as import_graph_def calls it: 'op:0', 'op:1', '^op'."""
    return name if ':' in name or name.startswith('^') else f'{name}:0'
