"""Gradients of several batches in one step of an Estimator: --accumulate_steps.

A model_fn has built the step of one micro-batch: its loss, its gradients, and the train_op that applies them. What the
gradients need is copied into a loop, which takes the micro-batches after the first one and adds up. The train_op then
applies the sums. The sums live in the loop: no checkpoint holds any, and a step is taken as a whole or not at all.

A loss over all examples of a step needs their number, which a loop before that one counts if batches may be short. It
reads the batches, and the second loop computes with what it has read.

The model_fn is told of as many replicas as there are micro-batches in a step. So it scales its losses for so many, and
the sums are those of an all-reduce over so many. The loss is that of all micro-batches, summaries are of the first.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from estimator_trainer.compat.patches import counted_replicas, graphs, optimizer_parts
from estimator_trainer.data import batch
from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import losses
from estimator_trainer.jobs.job_types import EstimatorSpec, Mode, Params, RunConfig, Tensors
from estimator_trainer.training import replica_effects, step_graph
from estimator_trainer.training.step_part import Part, ReadAhead

v1 = tf.compat.v1
ModelFn: TypeAlias = Callable[..., EstimatorSpec]
Gradient: TypeAlias = Any  # a tensor, tf.IndexedSlices or None


@dataclasses.dataclass(frozen=True)
class _Value:
    """What a step adds up over its micro-batches.

    Attributes:
        tensor: the identity of what one micro-batch gives. The rest of the step reads it.
        kind: 'sum' or 'mean'; 'rows', of a sparse gradient, which are put behind each other.
    """

    tensor: tf.Tensor
    kind: str = 'sum'

    @property
    def of_micro_batch(self) -> tf.Tensor:
        return self.tensor.op.inputs[0]

    @property
    def shape(self) -> tf.TensorShape:
        shape = self.of_micro_batch.shape
        return tf.TensorShape([None, *shape[1:]]) if self.kind == 'rows' and shape.rank else shape

    def added(self, total: tf.Tensor, more: tf.Tensor) -> tf.Tensor:
        return tf.concat([total, more], 0) if self.kind == 'rows' else total + more


class Accumulation:
    """The steps of one Estimator.

    Args:
        count: micro-batches of a step, at least 2.

    Attributes:
        has_ordered_calls: of `step_loop.StepLoop`, for the loop that `build` has added.
    """

    def __init__(self, count: int):
        self._count, self.has_ordered_calls = count, False
        self._gradients: list[_Value] = []
        self._variables: set[str] = set()
        self._losses: list[_Value] = []
        self._sizes: list[_Value] = []
        self._examples: list[tf.Tensor] = []  # of a step. What stands before them is the size of the first batch.

    @property
    def counts_examples(self) -> bool:
        """Whether a step reads all its batches before the first one is trained, to know how many examples it has: it
        asks an iterator for them. Batches that it takes from the graph would not move on."""
        return bool(self._sizes)

    def of_model_fn(self, model_fn: ModelFn) -> ModelFn:
        """A model_fn, of features, labels, mode, params and config, whose gradients and losses can be added up. It is
        called once for each replica."""

        def wrapped(features: Tensors, labels: Tensors, mode: Mode, params: Params, config: RunConfig) -> EstimatorSpec:
            if mode != tf.estimator.ModeKeys.TRAIN:
                return model_fn(features, labels, mode, params, config)
            with (
                counted_replicas.times(self._count),
                counted_replicas.scaled_by_optimizers(),
                optimizer_parts.apply_gradients_replaced(self._of_sums),
                losses.counting(functools.partial(self._examples_of_step, features, labels)),
            ):
                spec = model_fn(features, labels, mode, params, config)
                kind = 'mean' if counted_replicas.loss_is_mean() else 'sum'
            return spec._replace(loss=_noted(self._losses, spec.loss, kind))

        return wrapped

    def _examples_of_step(self, features: Tensors, labels: Tensors, losses_of_batch: tf.Tensor) -> tf.Tensor:
        size = batch.size(labels, features)
        examples = tf.identity(losses.over_replicas(_noted(self._sizes, size, 'sum')))
        self._examples.append(examples)
        return losses.checked_count(losses_of_batch, size, examples)

    def _of_sums(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def apply_gradients(optimizer: Any, grads_and_vars: Iterable[tuple], *args: Any, **kwargs: Any) -> Any:
            grads_and_vars = list(grads_and_vars)
            self._variables.update(replica_effects.names_of(variable for _, variable in grads_and_vars))
            if not self._are_noted([gradient for gradient, _ in grads_and_vars]):
                grads_and_vars = [(self._gradient(gradient), variable) for gradient, variable in grads_and_vars]
            return original(optimizer, grads_and_vars, *args, **kwargs)

        return apply_gradients

    def _are_noted(self, gradients: Sequence[Gradient]) -> bool:
        """Whether an optimizer within another one is given what was noted already."""
        given = [gradient for gradient in gradients if gradient is not None]
        if not given or not self._gradients:
            return False
        needed = _computed_from(given[0].values if isinstance(given[0], tf.IndexedSlices) else given[0])
        return any(value.tensor.op in needed for value in self._gradients)

    def _gradient(self, gradient: Gradient) -> Gradient:
        if gradient is None:
            return None
        if isinstance(gradient, tf.IndexedSlices):
            rows = [_noted(self._gradients, tensor, 'rows') for tensor in (gradient.values, gradient.indices)]
            return tf.IndexedSlices(*rows, gradient.dense_shape)
        return _noted(self._gradients, gradient, 'sum')

    def build(
        self, train_op: tf.Operation, wait: tf.Tensor | None, reads: Sequence[tf.Operation] = ()
    ) -> tf.Tensor | None:
        """Adds the loop to the graph of a step. The model_fn has been called for all replicas.

        Args:
            wait: how long a micro-batch was waited for, or None.
            reads: of a `from_memory.InGraph`.

        Returns:
            How long all of them were, or None.

        Raises:
            UsageError: the gradients of this step cannot be added up.
        """
        if not self._gradients:
            raise _refused('the model_fn gives no gradients to an optimizer')
        graph = train_op.graph
        if any(value.tensor.graph is not graph for value in [*self._gradients, *self._losses, *self._sizes]):
            raise _refused('the model_fn applies its gradients under a condition, as if it added them up itself')
        with graph.device(None), graph.colocate_with(None, ignore_existing=True), graph.control_dependencies(None):
            try:
                return self._added_up(train_op, wait, reads)
            except step_graph.CannotLoop as error:
                raise _refused(f'the step cannot be the body of a loop: {error}') from error

    def _added_up(
        self, train_op: tf.Operation, wait: tf.Tensor | None, reads: Sequence[tf.Operation]
    ) -> tf.Tensor | None:
        values, waited = [*self._gradients, *self._losses], [] if wait is None else [_Value(tf.identity(wait))]
        targets = step_graph.needed(value.tensor.op for value in [*values, *waited])
        asking = [op for op in targets if op.type in step_graph.ASKS or op in reads]
        counted, ahead = [*self._sizes, *waited], None
        if self._sizes:
            ahead = ReadAhead(asking, [value.of_micro_batch for value in counted], self._count)
        else:
            values += waited
        micro_batch = _MicroBatch(train_op, self._gradients, values, asking, ahead, self._examples)
        self.has_ordered_calls = micro_batch.has_ordered_calls
        how = f'once for each of the {self._count} batches of a step'
        replica_effects.warn_of_weights('--accumulate_steps', micro_batch.updates, self._variables, how)
        sums = self._sums(micro_batch, values)
        for value, total in [*zip(values, sums), *(zip(counted, ahead.sums) if ahead else ())]:
            graphs.replace_input(value.tensor.op, 0, total)
        return waited[0].tensor if waited else None

    def _sums(self, micro_batch: '_MicroBatch', values: Sequence[_Value]) -> list[tf.Tensor]:
        def take_another(number: tf.Tensor, *before: tf.Tensor) -> tuple:
            copies, updates = micro_batch.copy(number)
            totals = [value.added(total, copy) for value, total, copy in zip(values, before, copies)]
            with tf.control_dependencies([*updates, *totals]):
                return number + 1, *totals

        first = [value.of_micro_batch for value in values]  # its turn is over before the loop begins
        with tf.control_dependencies([*micro_batch.updates, *first]):
            begins = tf.identity(tf.constant(1))
        number, *sums = tf.while_loop(
            lambda number, *_: number < self._count,
            take_another,
            (begins, *first),
            shape_invariants=(tf.TensorShape([]), *(value.shape for value in values)),
            parallel_iterations=1,
            name='micro_batches',
        )
        for op in micro_batch.once:
            graphs.run_after(op, number.op)
        return [total / self._count if value.kind == 'mean' else total for value, total in zip(values, sums)]


class _MicroBatch:
    """The part of a step that is done for each micro-batch.

    Args:
        values: what it gives, the gradients among it.
        asking: the operations that ask for the batch.
        ahead: reads it; None: these operations do.
        examples: numbers of examples of the step.

    Attributes:
        updates: operations that change something by what they compute from the batch: such as the averages of a
            BatchNormalization.
        once: those that change something else, such as a counter, and that no gradient waits for. They are done when
            all micro-batches have been computed.
        has_ordered_calls: of `Part`.
    """

    def __init__(
        self,
        train_op: tf.Operation,
        gradients: Sequence[_Value],
        values: Sequence[_Value],
        asking: Sequence[tf.Operation],
        ahead: ReadAhead | None,
        examples: Sequence[tf.Tensor],
    ):
        noted = [value.tensor.op for value in values]
        self._reads, self._ahead = [value.of_micro_batch for value in values], ahead
        own, follows = set(step_graph.needed(tensor.op for tensor in self._reads)), step_graph.following(noted)
        if own & follows:
            raise _refused('the gradients of one optimizer wait for the update of another one')
        if not any(_computed_from(value.tensor) & set(asking) for value in gradients):
            raise _refused('what the model_fn gives to its optimizer is not computed from the batch of the step')
        of_batch, functions = step_graph.computed_with(asking), step_graph.Functions(train_op.graph)
        of_step = {tensor.op for tensor in examples}
        counted = set(step_graph.needed(of_step))
        needed = [op for op in step_graph.needed([train_op, *noted]) if op not in counted]
        writes = [op for op in needed if op not in follows and op not in asking and functions.may_write(op)]
        self.updates = [op for op in writes if op in of_batch]
        beside = {op for op in writes if op not in of_batch}
        own |= set(step_graph.needed(self.updates))
        drawn = [op for op in beside if op in own and _gives_values(op)]  # such as numbers of a tf.random.Generator
        self.updates += drawn
        beside -= set(drawn)
        self.once = [op for op in beside if op not in own]
        given = beside | of_step
        without = given | set(asking) if ahead else given
        self._part = Part(train_op.graph, [*(tensor.op for tensor in self._reads), *self.updates], without)
        self._given = {tensor.ref(): tensor for tensor in self._part.inputs_from(given)}
        self.has_ordered_calls = self._part.has_ordered_calls or bool(ahead and ahead.part.has_ordered_calls)
        if self.has_ordered_calls and self._part.drawn_in_call:
            raise _refused(f'{self._part.drawn_in_call} draws random numbers in a function, beside an update')

    def copy(self, number: tf.Tensor) -> tuple[list[tf.Tensor], list[tf.Operation]]:
        """-> (what a further micro-batch gives, its updates)"""
        of_batch = self._ahead.read(number) if self._ahead else {}
        return self._part.copy(self._reads, self.updates, {**self._given, **of_batch}, draws_apart=True)


def _noted(values: list[_Value], tensor: tf.Tensor, kind: str) -> tf.Tensor:
    values.append(_Value(tf.identity(tensor), kind))
    return values[-1].tensor


def _computed_from(tensor: tf.Tensor) -> set[tf.Operation]:
    """The operations with whose results a tensor is computed, those of the graphs round a function among them. What
    is only waited for is none."""
    outside = {inside.op: outer.op for outer, inside in getattr(tensor.graph, 'captures', None) or ()}
    seen, left = set[tf.Operation](), [tensor.op]
    while left:
        op = left.pop()
        if op not in seen:
            seen.add(op)
            left += [outside[op]] if op in outside else [read.op for read in op.inputs]
    return seen


def _gives_values(op: tf.Operation) -> bool:
    return any(tensor.dtype not in (tf.resource, tf.variant) for tensor in op.outputs)


def _refused(why: str) -> UsageError:
    return UsageError(
        f'--accumulate_steps: {why}; leave the flag out, or let the job apply the gradients of each batch.'
    )
