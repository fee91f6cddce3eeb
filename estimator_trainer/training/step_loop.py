"""The training step of a graph as the body of a loop, so that one `session.run` takes many steps.

A model_fn has built one step: a train_op and a loss. All operations that they need are copied into the body of a
`tf.while_loop`. What lives from step to step (variables, iterators, tables) and what is fed stays outside. A copy
keeps the attributes of an operation, its seeds among them: a loop computes bit for bit what single steps compute.
"""

import dataclasses

import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from estimator_trainer.compat.patches import graphs

v1 = tf.compat.v1
_OF_ONE_STEP = {'TensorArray', 'TensorArrayV2', 'TensorArrayV3', 'Stack', 'StackV2'}  # resources that no step shares
_FED = {'Placeholder', 'PlaceholderWithDefault'}
_LOOPS_OF_V1 = {'Enter', 'Exit', 'Switch', 'Merge', 'NextIteration', 'RefEnter', 'RefSwitch'}
_PLACE = b'loc:@'  # of an operation that has to be where another one is


class CannotLoop(Exception):
    """The step cannot be the body of a loop. The text says why."""


@dataclasses.dataclass(frozen=True)
class StepLoop:
    """Some training steps in one call.

    Attributes:
        most: placeholder of how many steps the call takes at most. It takes fewer if a loss is not finite, or if
            `stops` is true after a step.
        done: an int32 scalar, the steps that the call has taken.
        losses: the loss of each of them.
        loss: the last of them.
        summary: the merged summaries of the last step, or None.
        last: {reference of a tensor of one step: its value in the last step}, for those that were asked for.
        also: what else was asked for of each of the steps, or None.
    """

    most: tf.Tensor
    done: tf.Tensor
    losses: tf.Tensor
    loss: tf.Tensor
    summary: tf.Tensor | None
    last: dict
    also: tf.Tensor | None = None


def make(train_op, loss, stops, summary=None, last=(), also=None) -> StepLoop:
    """Builds the loop in the graph of `train_op`.

    Args:
        train_op: operation or tensor of one step.
        loss: its scalar loss.
        stops: a bool scalar of the step: no other one follows in this call. None: it always may.
        summary: a string tensor that may depend on the step, or None.
        last: tensors of the step whose last value is wanted.
        also: a scalar of the step of which all values are wanted, in the type of the loss; or None.

    Raises:
        CannotLoop: an operation of the step cannot be copied.
    """
    graph, train_op = loss.graph, _op(train_op)
    stops = tf.constant(False) if stops is None else stops
    beside = [] if also is None else [tf.cast(also, loss.dtype)]  # travels with the loss, which costs least
    step = _Part(graph, [train_op, loss.op, stops.op, *(tensor.op for tensor in (*last, *beside))])
    summaries = _Part(graph, [summary.op], without=step.ops) if summary is not None else None
    carried = _unique([*last, *(summaries.inputs_from(step.ops) if summaries else ())])
    most = v1.placeholder_with_default(1, [], name='steps_per_call')
    losses = tf.TensorArray(loss.dtype, size=0, dynamic_size=True, element_shape=[1 + len(beside)])

    def goes_on(done, ends, *_):
        return tf.logical_and(done < most, tf.logical_not(ends))

    def take_a_step(done, _, losses, *__):
        copied_op, (of_step, ends, *values) = step.copy(train_op, [loss, stops, *beside, *carried])
        others, values = values[: len(beside)], values[len(beside) :]
        with tf.control_dependencies([copied_op, of_step, ends]):
            of_step = tf.reshape(of_step, [])  # its shape may be unknown
            ends = tf.logical_or(tf.reshape(ends, []), tf.logical_not(tf.math.is_finite(of_step)))
            return done + 1, ends, losses.write(done, tf.stack([of_step, *others])), *values

    with graph.device(None), graph.colocate_with(None, ignore_existing=True), graph.control_dependencies(None):
        done, _, losses, *values = tf.while_loop(
            goes_on,
            take_a_step,
            (tf.constant(0), tf.constant(False), losses, *(_nothing(tensor) for tensor in carried)),
            shape_invariants=(
                tf.TensorShape([]),
                tf.TensorShape([]),
                tf.TensorShape(None),
                *(tensor.shape for tensor in carried),
            ),
            parallel_iterations=1,
            name='training_steps',
        )
        losses, *others = tf.unstack(losses.stack(), axis=1)
        of_last = {tensor.ref(): value for tensor, value in zip(carried, values)}
        if summaries:
            _, (summary,) = summaries.copy(None, [summary], of_last, after=done)
    last_values = {tensor.ref(): of_last[tensor.ref()] for tensor in last}
    return StepLoop(most, done, losses, losses[-1], summary, last_values, others[0] if others else None)


class _Part:
    """The operations that some targets need.

    Attributes:
        ops: those to be copied.
        borders: those that stay where they are, and that `ops` read from.
    """

    def __init__(self, graph, targets, without=frozenset()):
        self._graph, self.ops, self.borders = graph, set(), set()
        seen, left = set(), list(targets)
        while left:
            op = left.pop()
            if op in seen or op in without:
                continue
            seen.add(op)
            if _stays(op):
                self.borders.add(op)
                continue
            _check(op)
            self.ops.add(op)
            left += [tensor.op for tensor in op.inputs] + list(op.control_inputs)

    def inputs_from(self, ops) -> list:
        """The tensors of other operations that this part reads."""
        return [tensor for op in self._ordered() for tensor in op.inputs if tensor.op in ops]

    def copy(self, train_op, tensors, given=None, after=None):
        """Copies the operations into the graph that is being built.

        Args:
            train_op: one of the operations, or None.
            tensors: of these operations.
            given: {reference of a tensor: what stands for it in the copy}.
            after: the copy reads variables when this tensor has been computed.

        Returns:
            (the copy of train_op, the copies of the tensors)
        """
        graph = v1.get_default_graph()
        stands_for = {reference.deref().name: value for reference, value in (given or {}).items()}
        for op in self.borders:
            for tensor in op.outputs:
                inner = tensor if graph is self._graph else graph.capture(tensor)
                if after is not None:
                    with tf.control_dependencies([after]):
                        inner = tf.identity(inner)
                stands_for[tensor.name] = inner
        definition = self._definition()
        needed = {_full(name) for node in definition.node for name in node.input}
        wanted = [tensor.name for tensor in tensors if tensor.name not in stands_for]
        returned = tf.import_graph_def(
            definition,
            {name: value for name, value in stands_for.items() if name in needed},
            [*([train_op.name] if train_op else []), *wanted],
            name='step',
        )
        copied_op = returned.pop(0) if train_op else None
        copies = {**stands_for, **dict(zip(wanted, returned))}
        return copied_op, [copies[tensor.name] for tensor in tensors]

    def _ordered(self) -> list:
        return [op for op in self._graph.get_operations() if op in self.ops]

    def _definition(self) -> graph_pb2.GraphDef:
        names = {op.name for op in self.ops}
        definition = graph_pb2.GraphDef(versions=self._graph.graph_def_versions)
        graphs.copy_functions(self._graph, definition)
        for op in self._ordered():
            node = definition.node.add()
            node.CopyFrom(op.node_def)
            inputs = [name for name in node.input if not name.startswith('^') or name[1:] in names]
            node.input[:] = inputs
            places = [
                place
                for place in node.attr['_class'].list.s
                if not place.startswith(_PLACE) or place[len(_PLACE) :].decode() in names
            ]
            del node.attr['_class']
            if places:
                node.attr['_class'].list.s.extend(places)
        return definition


def _stays(op) -> bool:
    """What every step shares, and what is fed."""
    holds = any(tensor.dtype == tf.resource for tensor in op.outputs) and op.type not in _OF_ONE_STEP
    return holds or op.type in _FED


def _check(op) -> None:
    if any(graphs.is_reference(tensor) for tensor in op.outputs):
        raise CannotLoop(f'{op.name} is a variable of TensorFlow 1')
    if op.type in _LOOPS_OF_V1:
        raise CannotLoop(f'{op.name} belongs to a loop or a condition of TensorFlow 1')


def _nothing(tensor):
    """Stands for a tensor before the first step."""
    if tensor.dtype in (tf.variant, tf.resource):
        raise CannotLoop(f'{tensor.name} cannot leave the loop')
    return tf.zeros([size or 0 for size in tensor.shape] if tensor.shape.rank else [], tensor.dtype)


def _op(fetch):
    return fetch if isinstance(fetch, tf.Operation) else fetch.op


def _full(name) -> str:
    """An input of a node, 'op' or 'op:1', as a tensor is called: 'op:0', 'op:1'."""
    return name if ':' in name else f'{name}:0'


def _unique(tensors) -> list:
    return [reference.deref() for reference in dict.fromkeys(tensor.ref() for tensor in tensors)]
