"""The training step of a graph as the body of a loop, so that one `session.run` takes many steps.

A model_fn has built one step: a train_op and a loss. All operations that they need are copied into the body of a
`tf.while_loop`. Only two kinds of operations stay outside, and both read nothing that a step computes: the handles of
what lives from step to step (variables, iterators, tables, queues), and placeholders. A copy keeps the attributes of
an operation, its seeds and its static shapes among them: a loop computes bit for bit what single steps compute.

What cannot be copied so is refused by CannotLoop, and so is whatever TensorFlow raises while the loop is built: each
call then takes one step.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_trainer.training import step_graph
from estimator_trainer.training.step_graph import CannotLoop
from estimator_trainer.training.step_part import Part

v1 = tf.compat.v1
_MOST_SCALARS = 4  # a condition costs a step as much as it costs to hand on about so many


@dataclasses.dataclass(frozen=True)
class StepLoop:
    """Some training steps in one call.

    Attributes:
        most: placeholder of how many steps the call takes at most. It takes fewer if a loss is not finite, if `stops`
            is true after a step, or if a step has not counted by 1.
        first: placeholder of the count before the call, an int64 scalar. It matters only if `counted` was given.
        summarises: placeholder of whether the call computes `summary`, a bool scalar; it does not unless it is fed.
        done: an int32 scalar, the steps that the call has taken: all of them are over.
        losses: the loss of each of them.
        loss: the last of them.
        summary: the merged summaries of the last step, if `summarises` was fed and the call has taken all of its
            steps, else ''; None if there are none.
        last: {reference of a tensor of one step: its value in the last step}, for those that were asked for.
        draws: whether the step draws random numbers from seeds of its operations. The copies count their draws apart
            from the originals.
        drawn_in_call: of `Part`.
        has_ordered_calls: whether the step calls a function that takes a variable which the step changes. Within a
            loop TensorFlow's optimizer of graphs puts the operations of such a function in place of the call, and lets
            them wait for nothing but what they read: some would no longer come before or after the change. So the
            session has to have `function_optimization` off.
        is_short: whether the step computes so little that one thread does it fastest (`Part.is_short`).
        also: what else was asked for of each of the steps, or None.
    """

    most: tf.Tensor
    first: tf.Tensor
    summarises: tf.Tensor
    done: tf.Tensor
    losses: tf.Tensor
    loss: tf.Tensor
    summary: tf.Tensor | None
    last: dict[Any, tf.Tensor]
    draws: bool
    drawn_in_call: str | None
    has_ordered_calls: bool
    is_short: bool
    also: tf.Tensor | None = None


def make(
    train_op: tf.Operation | tf.Tensor,
    loss: tf.Tensor,
    stops: tf.Tensor | None,
    summary: tf.Tensor | None = None,
    last: Sequence[tf.Tensor] = (),
    also: tf.Tensor | None = None,
    counted: tf.Tensor | None = None,
) -> StepLoop:
    """Builds the loop in the graph of `train_op`.

    Args:
        train_op: operation or tensor of one step.
        loss: its scalar loss.
        stops: a bool scalar of the step: no other one follows in this call. None: it always may.
        summary: a string tensor that may depend on the step, or None.
        last: tensors of the step whose last value is wanted.
        also: a scalar of the step of which all values are wanted, in the type of the loss; or None.
        counted: an int64 scalar of the step: the global step after it. A call ends after a step that has moved it by
            another number than 1. Where the step certainly adds 1 to it, no step reads it: that costs short steps some
            percent. None: nobody asks.

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


def _made(
    train_op: tf.Operation,
    loss: tf.Tensor,
    stops: tf.Tensor | None,
    summary: tf.Tensor | None,
    last: Sequence[tf.Tensor],
    also: tf.Tensor | None,
    counted: tf.Tensor | None,
) -> StepLoop:
    graph = loss.graph
    stops = tf.constant(False) if stops is None else stops
    beside = [] if also is None else [tf.cast(also, loss.dtype)]  # travels with the loss, which costs least
    counts = [] if counted is None else [counted]
    targets = [train_op, loss.op, stops.op, *(tensor.op for tensor in (*last, *beside))]
    step = Part(graph, targets)
    _refuse_drawn_first_values(step)
    if counted is not None and step.adds_one_to(_variable_read_by(counted)):
        counts = []
    if counts:
        step = Part(graph, [*targets, *(count.op for count in counts)])
    summaries = None if summary is None else _Summaries(graph, summary, step)
    inside = summaries if summaries and not summaries.need_only_scalars else None
    carried = _unique(last)
    if summaries and not inside:
        carried = _unique([*last, *(tensor for tensor in summaries.reads if tensor.name != loss.name)])
    most = v1.placeholder_with_default(1, [], name='steps_per_call')
    first = v1.placeholder_with_default(np.int64(0), [], name='step_before_call')
    summarises = v1.placeholder_with_default(False, [], name='call_summarises')
    shape_of_loss = np.array([1 + len(beside)] if beside else [], np.int32)

    def goes_on(left: tf.Tensor, *_: tf.Tensor) -> tf.Tensor:
        return left > 0

    def take_a_step(left: tf.Tensor, losses: tf.Tensor, *_: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """What follows from the loss is computed beside the gradients; only `left` waits for the whole step."""
        tensors, ops = [loss, stops, *beside, *counts, *carried], [train_op]
        if inside:
            tensors, ops = [*tensors, *inside.reads], [*ops, *inside.waits_for]
        (of_step, ends, *values), (copied_op, *others_done) = step.copy(tensors, ops)
        of_step, ends = _scalar(of_step), _scalar(ends)
        others, values = values[: len(beside)], values[len(beside) :]
        reached, values = values[: len(counts)], values[len(counts) :]
        values, of_summary = values[: len(carried)], values[len(carried) :]
        if inside:
            values.append(inside.of_step(tf.logical_and(summarises, left <= 1), of_summary, others_done))
        follows = tf.logical_and(tf.math.is_finite(of_step), tf.logical_not(ends))
        for count in reached:
            follows = tf.logical_and(follows, tf.equal(count, first + tf.cast(most - left + 1, tf.int64)))
        losses = tf.raw_ops.TensorListPushBack(
            input_handle=losses, tensor=tf.stack([of_step, *others]) if others else of_step
        )
        with tf.device('/cpu:0'):  # where the loop asks for it
            left = tf.where(follows, left - 1, 0)
        with tf.control_dependencies([copied_op]):
            return tf.identity(left), losses, *values

    with graph.device(None), graph.colocate_with(None, ignore_existing=True), graph.control_dependencies(None):
        none_yet = tf.raw_ops.EmptyTensorList(
            element_shape=shape_of_loss, max_num_elements=-1, element_dtype=loss.dtype
        )
        values = [_nothing(tensor) for tensor in carried] + ([tf.constant(b'')] if inside else [])
        _, losses, *values = tf.while_loop(
            goes_on,
            take_a_step,
            (most, none_yet, *values),
            shape_invariants=(
                tf.TensorShape([]),
                tf.TensorShape([]),
                *(tensor.shape for tensor in carried),
                *([tf.TensorShape([])] if inside else []),
            ),
            parallel_iterations=1,
            name='training_steps',
        )
        losses = tf.raw_ops.TensorListStack(
            input_handle=losses, element_shape=shape_of_loss, element_dtype=loss.dtype, num_elements=-1
        )
        losses, *others = tf.unstack(losses, axis=1) if beside else [losses]
        done, last_loss = tf.size(losses), losses[-1]
        text = values.pop() if inside else None
        of_last = {tensor.ref(): value for tensor, value in zip(carried, values)}
        if summaries and not inside:
            scalars = {loss.ref(): last_loss, **of_last}
            is_due = tf.logical_and(summarises, done >= most)
            text = summaries.of_step(is_due, [scalars[tensor.ref()] for tensor in summaries.reads])
    also_of_steps = others[0] if others else None
    of_graph = bool(step.drawing), step.drawn_in_call, step.has_ordered_calls, step.is_short()
    return StepLoop(most, first, summarises, done, losses, last_loss, text, of_last, *of_graph, also_of_steps)


def _refuse_drawn_first_values(step: Part) -> None:
    """Its initializer has drawn from such an operation before the first step, and not from the copy in the loop."""
    variables = [*v1.global_variables(), *v1.local_variables()]
    initializers = [getattr(variable, 'initializer', None) for variable in variables]
    ops = [
        _op(each) for each in (*initializers, *v1.get_collection(v1.GraphKeys.TABLE_INITIALIZERS)) if each is not None
    ]
    op = next(filter(step.drawing.__contains__, step_graph.needed(ops)), None) if step.drawing else None
    if op:
        raise CannotLoop(f'{op.name} draws random numbers for the step and for a first value')


class _Summaries:
    """What merged summaries need beside a step.

    The last step of a call computes it, as a single step would: its reads of variables wait for nothing that they do
    not wait for there. The condition costs each short step some percent. So summaries of a few scalars, such as the
    loss, are computed after the steps.

    Args:
        graph: of the step.
        summary: a string scalar.
        step: Part.

    Attributes:
        reads: the tensors of the step that it reads.
        waits_for: the operations of the step that it waits for.
        need_only_scalars: whether they are a function of a few scalars of the step and of nothing else.
    """

    def __init__(self, graph: tf.Graph, summary: tf.Tensor, step: Part):
        of_step = {op for op in step.ops if op.type != 'Const'}
        self._summary, self._part = summary, Part(graph, [summary.op], without=of_step)
        self.reads = _unique([summary] if summary.op in of_step else self._part.inputs_from(of_step))
        waits_for = (op for own in self._part.ops for op in own.control_inputs if op in of_step)
        self.waits_for = list(dict.fromkeys(waits_for))
        are_scalars = all(tensor.shape.rank == 0 and tensor.dtype.is_numpy_compatible for tensor in self.reads)
        self.need_only_scalars = are_scalars and len(self.reads) <= _MOST_SCALARS and self._part.is_function

    def of_step(
        self, is_due: tf.Tensor, reads: Sequence[tf.Tensor], waits_for: Sequence[tf.Operation] = ()
    ) -> tf.Tensor:
        """The summary of this step, or ''.

        Args:
            is_due: a bool scalar.
            reads, waits_for: the copies of the tensors and operations of these names.
        """
        given = {tensor.ref(): copy for tensor, copy in zip(self.reads, reads)}

        def computed() -> tf.Tensor:
            (text,), _ = self._part.copy([self._summary], given=given)
            return _scalar(text)

        with tf.control_dependencies(waits_for):
            return tf.cond(is_due, computed, lambda: tf.constant(b''))


def _scalar(tensor: tf.Tensor) -> tf.Tensor:
    """A tensor with one element, whose shape may be unknown."""
    return tensor if tensor.shape.rank == 0 else tf.reshape(tensor, [])


def _nothing(tensor: tf.Tensor) -> tf.Tensor:
    """Stands for a tensor before the first step."""
    if tensor.dtype in (tf.variant, tf.resource):
        raise CannotLoop(f'{tensor.name} cannot leave the loop')
    return tf.zeros([size or 0 for size in tensor.shape.as_list()] if tensor.shape.rank else [], tensor.dtype)


def _variable_read_by(tensor: tf.Tensor) -> tf.Tensor:
    """The handle of the variable whose value a tensor is, if it is; else the tensor."""
    op = tensor.op
    while op.type in ('Cast', 'Identity'):
        op = op.inputs[0].op
    return op.inputs[0] if op.type == 'ReadVariableOp' else tensor


def _op(fetch: tf.Operation | tf.Tensor) -> tf.Operation:
    return fetch if isinstance(fetch, tf.Operation) else fetch.op


def _unique(tensors: Iterable[tf.Tensor]) -> list[tf.Tensor]:
    return [reference.deref() for reference in dict.fromkeys(tensor.ref() for tensor in tensors)]
