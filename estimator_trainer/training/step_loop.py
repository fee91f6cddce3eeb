"""The training step of a graph as the body of a loop, so that one `session.run` takes many steps.

A model_fn has built one step: a train_op and a loss. All operations that they need are copied into the body of a
`tf.while_loop`. Only two kinds of operations stay outside, and both read nothing that a step computes: the handles of
what lives from step to step (variables, iterators, tables, queues), and placeholders. A copy keeps the attributes of
an operation, its seeds and its static shapes among them: a loop computes bit for bit what single steps compute.

What cannot be copied so is refused by CannotLoop, and so is whatever TensorFlow raises while the loop is built: each
call then takes one step.
"""

import dataclasses

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from estimator_trainer.compat.patches import graphs
from estimator_trainer.training import step_functions
from estimator_trainer.training.step_functions import CannotLoop

v1 = tf.compat.v1
_LOOPS_OF_V1 = {'Enter', 'Exit', 'Switch', 'Merge', 'NextIteration', 'RefEnter', 'RefSwitch'}
_PLACE = b'loc:@'  # of an operation that has to be where another one is


@dataclasses.dataclass(frozen=True)
class StepLoop:
    """Some training steps in one call.

    Attributes:
        most: placeholder of how many steps the call takes at most. It takes fewer if a loss is not finite, if `stops`
            is true after a step, or if a step has not counted by 1.
        first: placeholder of the count before the call, an int64 scalar. It matters only if `counted` was given.
        summarises: placeholder of whether the call computes `summary`, a bool scalar; it does not unless it is fed.
        done: an int32 scalar, the steps that the call has taken.
        losses: the loss of each of them.
        loss: the last of them.
        summary: the merged summaries of the last step, if `summarises` was fed and the call has taken all of its
            steps, else ''; None if there are none.
        last: {reference of a tensor of one step: its value in the last step}, for those that were asked for.
        draws: whether the step draws random numbers from seeds of its operations. The copies count their draws apart
            from the originals.
        also: what else was asked for of each of the steps, or None.
    """

    most: tf.Tensor
    first: tf.Tensor
    summarises: tf.Tensor
    done: tf.Tensor
    losses: tf.Tensor
    loss: tf.Tensor
    summary: tf.Tensor | None
    last: dict
    draws: bool
    also: tf.Tensor | None = None


def make(train_op, loss, stops, summary=None, last=(), also=None, counted=None) -> StepLoop:
    """Builds the loop in the graph of `train_op`.

    Args:
        train_op: operation or tensor of one step.
        loss: its scalar loss.
        stops: a bool scalar of the step: no other one follows in this call. None: it always may.
        summary: a string tensor that may depend on the step, or None.
        last: tensors of the step whose last value is wanted.
        also: a scalar of the step of which all values are wanted, in the type of the loss; or None.
        counted: an int64 scalar of the step: the global step after it. A call ends after a step that has moved it by
            another number than 1. None: nobody asks.

    Raises:
        CannotLoop: the step cannot be the body of a loop. The text says which operation prevents it, and why.
    """
    try:
        return _made(_op(train_op), loss, stops, summary, last, also, counted)
    except CannotLoop:
        raise
    except Exception as error:  # whatever TensorFlow has against this graph, single steps are still right
        said = str(error).strip().splitlines() or ['']
        raise CannotLoop(f'TensorFlow cannot build the loop ({type(error).__name__}: {said[0][:200]})') from error


def _made(train_op, loss, stops, summary, last, also, counted) -> StepLoop:
    graph = loss.graph
    stops = tf.constant(False) if stops is None else stops
    beside = [] if also is None else [tf.cast(also, loss.dtype)]  # travels with the loss, which costs least
    counts = [] if counted is None else [counted]
    targets = [train_op, loss.op, stops.op, *(tensor.op for tensor in (*last, *beside, *counts))]
    step = _Part(graph, targets)
    summaries = None if summary is None else _Summaries(graph, summary, step)
    carried = _unique(last)
    most = v1.placeholder_with_default(1, [], name='steps_per_call')
    first = v1.placeholder_with_default(np.int64(0), [], name='step_before_call')
    summarises = v1.placeholder_with_default(False, [], name='call_summarises')
    losses = tf.TensorArray(loss.dtype, size=0, dynamic_size=True, element_shape=[1 + len(beside)])

    def goes_on(done, ends, *_):
        return tf.logical_and(done < most, tf.logical_not(ends))

    def take_a_step(done, _, losses, text, *__):
        tensors, ops = [loss, stops, *beside, *counts, *carried], [train_op]
        if summaries:
            tensors, ops = [*tensors, *summaries.reads], [*ops, *summaries.waits_for]
        (of_step, ends, *values), (copied_op, *others_done) = step.copy(tensors, ops)
        others, values = values[: len(beside)], values[len(beside) :]
        reached, values = values[: len(counts)], values[len(counts) :]
        values, of_summary = values[: len(carried)], values[len(carried) :]
        if summaries:
            text = summaries.of_step(tf.logical_and(summarises, done + 1 >= most), of_summary, others_done)
        with tf.control_dependencies([copied_op, of_step, ends, *reached]):
            of_step = tf.reshape(of_step, [])  # its shape may be unknown
            ends = tf.logical_or(tf.reshape(ends, []), tf.logical_not(tf.math.is_finite(of_step)))
            for count in reached:
                ends = tf.logical_or(ends, tf.not_equal(count, first + tf.cast(done + 1, tf.int64)))
            return done + 1, ends, losses.write(done, tf.stack([of_step, *others])), text, *values

    with graph.device(None), graph.colocate_with(None, ignore_existing=True), graph.control_dependencies(None):
        done, _, losses, text, *values = tf.while_loop(
            goes_on,
            take_a_step,
            (tf.constant(0), tf.constant(False), losses, tf.constant(b''), *(_nothing(tensor) for tensor in carried)),
            shape_invariants=(
                tf.TensorShape([]),
                tf.TensorShape([]),
                tf.TensorShape(None),
                tf.TensorShape([]),
                *(tensor.shape for tensor in carried),
            ),
            parallel_iterations=1,
            name='training_steps',
        )
        losses, *others = tf.unstack(losses.stack(), axis=1)
    of_last = {tensor.ref(): value for tensor, value in zip(carried, values)}
    text, beside = text if summaries else None, others[0] if others else None
    return StepLoop(most, first, summarises, done, losses, losses[-1], text, of_last, step.draws, beside)


class _Part:
    """The operations that some targets need.

    Args:
        graph: theirs.
        targets: operations.
        without: operations whose results are given to the copy.

    Attributes:
        ops: those to be copied.
        borders: those that stay where they are, and that `ops` read from. They read nothing of `ops`.
        draws: whether any of `ops` draws random numbers from a seed of its own.
    """

    def __init__(self, graph, targets, without=frozenset()):
        self._graph = graph
        self.ops, self.borders = set(), set()
        functions = step_functions.Functions(graph)
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
        self.draws = functions.draw

    def inputs_from(self, ops) -> list:
        """The tensors of other operations that this part reads."""
        return [tensor for op in self._ordered() for tensor in op.inputs if tensor.op in ops]

    def copy(self, tensors, ops=(), given=None) -> tuple[list, list]:
        """Copies the operations into the graph that is being built.

        Args:
            tensors: of these operations, or of `given`.
            ops: some of the operations.
            given: {reference of a tensor: what stands for it in the copy}.

        Returns:
            (the copies of `tensors`, the copies of `ops`)
        """
        graph = v1.get_default_graph()
        stands_for = {reference.deref().name: _inside(graph, value) for reference, value in (given or {}).items()}
        stands_for |= {tensor.name: _inside(graph, tensor) for op in self.borders for tensor in op.outputs}
        definition = self._definition()
        needed = {_full(name) for node in definition.node for name in node.input}
        wanted = [tensor.name for tensor in tensors if tensor.name not in stands_for]
        returned = tf.import_graph_def(
            definition,
            {name: value for name, value in stands_for.items() if name in needed},
            [*(op.name for op in ops), *wanted],
            name='step',
        )
        copies = stands_for | dict(zip(wanted, returned[len(ops) :]))
        return [copies[tensor.name] for tensor in tensors], returned[: len(ops)]

    def _ordered(self) -> list:
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


class _Summaries:
    """What merged summaries need beside a step. The last step of a call computes it, as a single step would: its reads
    of variables wait for nothing that they do not wait for there.

    Args:
        graph: of the step.
        summary: a string scalar.
        step: _Part.

    Attributes:
        reads: the tensors of the step that it reads.
        waits_for: the operations of the step that it waits for.
    """

    def __init__(self, graph, summary, step):
        self._summary, self._part = summary, _Part(graph, [summary.op], without=step.ops)
        self.reads = _unique([summary] if summary.op in step.ops else self._part.inputs_from(step.ops))
        of_step = (op for own in self._part.ops for op in own.control_inputs if op in step.ops)
        self.waits_for = list(dict.fromkeys(of_step))

    def of_step(self, wanted, reads, waits_for):
        """The summary of this step, or ''.

        Args:
            wanted: a bool scalar.
            reads, waits_for: the copies of the tensors and operations of these names.
        """
        given = {tensor.ref(): copy for tensor, copy in zip(self.reads, reads)}

        def computed():
            (text,), _ = self._part.copy([self._summary], given=given)
            return tf.reshape(text, [])

        with tf.control_dependencies(waits_for):
            return tf.cond(wanted, computed, lambda: tf.constant(b''))


def _stays(op) -> bool:
    """Whether an operation stays outside the loop: a handle of what lives from step to step, or a placeholder.

    Raises:
        CannotLoop: it has to stay outside, but reads what a step computes.
    """
    if op.type == 'Placeholder':
        return True
    if op.type == 'PlaceholderWithDefault':
        return _is_fixed(op.inputs[0].op)  # else its default is a part of the step
    if not _is_handle(op):
        return False  # other handles, such as those that a While returns, are made anew in each step
    if not all(_is_fixed(read) for read in _reads(op)):
        raise CannotLoop(f'{op.name} ({op.type}) is shared by all steps, but reads what a step computes')
    return True


def _is_fixed(op) -> bool:
    """Whether an operation computes the same in each step, whatever the step does: it and all that it reads have no
    state."""
    seen, left = set(), [op]
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


def _is_handle(op) -> bool:
    """Whether an operation gives a resource that is found by its name in every step."""
    return step_functions.is_named(op.op_def) and any(tensor.dtype == tf.resource for tensor in op.outputs)


def _check(op) -> None:
    if any(graphs.is_reference(tensor) for tensor in op.outputs):
        raise CannotLoop(f'{op.name} is a variable of TensorFlow 1')
    if op.type in _LOOPS_OF_V1:
        raise CannotLoop(f'{op.name} belongs to a loop or a condition of TensorFlow 1')


def _reads(op) -> list:
    """The operations that an operation waits for."""
    return [*(tensor.op for tensor in op.inputs), *op.control_inputs]


def _inside(graph, tensor):
    """A tensor of this graph or of one around it, as a tensor of this graph."""
    return tensor if tensor.graph is graph else graph.capture(tensor)


def _nothing(tensor):
    """Stands for a tensor before the first step."""
    if tensor.dtype in (tf.variant, tf.resource):
        raise CannotLoop(f'{tensor.name} cannot leave the loop')
    return tf.zeros([size or 0 for size in tensor.shape] if tensor.shape.rank else [], tensor.dtype)


def _op(fetch):
    return fetch if isinstance(fetch, tf.Operation) else fetch.op


def _full(name) -> str:
    """An input of a node, 'op', 'op:1' or '^op', as import_graph_def calls it: 'op:0', 'op:1', '^op'."""
    return name if ':' in name or name.startswith('^') else f'{name}:0'


def _unique(tensors) -> list:
    return [reference.deref() for reference in dict.fromkeys(tensor.ref() for tensor in tensors)]
