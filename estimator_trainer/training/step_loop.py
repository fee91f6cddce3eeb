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

from estimator_trainer.training.step_graph import CannotLoop
from estimator_trainer.training.step_part import Part

v1 = tf.compat.v1


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
        has_ordered_calls: whether the step calls a function that takes a variable which the step changes. Within a
            loop TensorFlow's optimizer of graphs puts the operations of such a function in place of the call, and lets
            them wait for nothing but what they read: some would no longer come before or after the change. So the
            session has to have `function_optimization` off.
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
    has_ordered_calls: bool
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
    if counted is not None and step.adds_one_to(_variable_read_by(counted)):
        counts = []
    if counts:
        step = Part(graph, [*targets, *(count.op for count in counts)])
    summaries = None if summary is None else _Summaries(graph, summary, step)
    carried = _unique(last)
    most = v1.placeholder_with_default(1, [], name='steps_per_call')
    first = v1.placeholder_with_default(np.int64(0), [], name='step_before_call')
    summarises = v1.placeholder_with_default(False, [], name='call_summarises')
    losses = tf.TensorArray(loss.dtype, size=0, dynamic_size=True, element_shape=[1 + len(beside)])

    def goes_on(done: tf.Tensor, ends: tf.Tensor, *_: Any) -> tf.Tensor:
        return tf.logical_and(done < most, tf.logical_not(ends))

    def take_a_step(
        done: tf.Tensor, _: tf.Tensor, losses: tf.TensorArray, text: tf.Tensor, *__: tf.Tensor
    ) -> tuple[Any, ...]:
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
    also_of_steps = others[0] if others else None
    of_graph = step.draws, step.has_ordered_calls
    last_text = text if summaries else None
    return StepLoop(most, first, summarises, done, losses, losses[-1], last_text, of_last, *of_graph, also_of_steps)


class _Summaries:
    """What merged summaries need beside a step. The last step of a call computes it, as a single step would: its reads
    of variables wait for nothing that they do not wait for there.

    Args:
        graph: of the step.
        summary: a string scalar.
        step: Part.

    Attributes:
        reads: the tensors of the step that it reads.
        waits_for: the operations of the step that it waits for.
    """

    def __init__(self, graph: tf.Graph, summary: tf.Tensor, step: Part):
        self._summary, self._part = summary, Part(graph, [summary.op], without=step.ops)
        self.reads = _unique([summary] if summary.op in step.ops else self._part.inputs_from(step.ops))
        of_step = (op for own in self._part.ops for op in own.control_inputs if op in step.ops)
        self.waits_for = list(dict.fromkeys(of_step))

    def of_step(self, is_due: tf.Tensor, reads: Sequence[tf.Tensor], waits_for: Sequence[tf.Operation]) -> tf.Tensor:
        """The summary of this step, or ''.

        Args:
            is_due: a bool scalar.
            reads, waits_for: the copies of the tensors and operations of these names.
        """
        given = {tensor.ref(): copy for tensor, copy in zip(self.reads, reads)}

        def computed() -> tf.Tensor:
            (text,), _ = self._part.copy([self._summary], given=given)
            return tf.reshape(text, [])

        with tf.control_dependencies(waits_for):
            return tf.cond(is_due, computed, lambda: tf.constant(b''))


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
