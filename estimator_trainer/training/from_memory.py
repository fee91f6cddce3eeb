"""Batches that a step takes from examples in memory itself.

An iterator of tf.data costs a small model more than its step does: threads hand each batch on. The order of examples in
memory is a function of the seed and the position, so a step can compute which examples are its own, and gather them. It
gets the batches that the iterator would have given, bit for bit.

That is done in a process that trains alone, on CPUs, in 32 bits, with a data set that carries a
`data.pipeline.InMemory` of at most --in_memory_mb. Everything else is read by tf.data.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from estimator_trainer.compat import lacks
from estimator_trainer.compat.patches import eager_context, graphs
from estimator_trainer.data import pipeline
from estimator_trainer.training import runtime
from estimator_trainer.training.plan import Plan

# What may use the handle of an iterator that nobody but the step asks.
_OF_ITERATOR = ['IteratorGetNext', 'IteratorToStringHandle', 'MakeIterator']


def usable(batches: Any, plan: Plan) -> pipeline.InMemory | None:
    """What a data set carries, if a step of this task may take its batches itself; else None."""
    carried = pipeline.in_memory(batches)
    if carried is None or carried.num_bytes > plan.config.in_memory_mb * 2**20:
        return None
    if not runtime.trains_alone_on_cpus(plan) or carried.replicas != plan.num_replicas:
        return None
    # 16 bits: TensorFlow decides by what an operation reads whether it may rewrite it.
    return None if plan.config.mixed_precision else carried


def wait() -> float | None:
    """How long a step waits for a batch that it takes itself, in seconds; None: waits are not measured."""
    return None if eager_context.is_deterministic() else 0.0


class InGraph:
    """Takes the batches of a step in a graph of TensorFlow 1.

    Each replica has a counter of its batches, as an iterator has. The examples and the counters live in the session,
    and no checkpoint holds them.

    Args:
        carried: of the data set.

    Attributes:
        reads: the operations that read the counters, one for each replica. What is computed with a batch is computed
            with what one of these gives.
    """

    def __init__(self, carried: pipeline.InMemory):
        self._carried = carried
        examples = carried.whole.get_single_element()
        flat = tf.nest.flatten(examples)
        handles = [_variable(f'examples/{number}', tensor) for number, tensor in enumerate(flat)]
        zero = tf.constant(0, tf.int64)
        self._counters = [_variable(f'batches/{number}', zero) for number in range(carried.replicas)]
        values = [(handle, tensor) for handle, tensor in zip(handles, flat)]
        values += [(counter, zero) for counter in self._counters]
        self._fill = [tf.raw_ops.AssignVariableOp(resource=handle, value=value) for handle, value in values]
        self._structure = examples
        self._examples = [(handle, tensor.dtype, tensor.shape) for handle, tensor in zip(handles, flat)]
        self.reads: list[tf.Operation] = []

    def batch(self, replica: int) -> list[tf.Tensor]:
        """The tensors of the next batch of a replica. What needs any of them moves its counter by 1."""
        counter = self._counters[replica]
        read = tf.raw_ops.ReadVariableOp(resource=counter, dtype=tf.int64)
        self.reads.append(read.op)
        number = read if self._carried.replicas == 1 else read * self._carried.replicas + replica
        with tf.control_dependencies([tf.raw_ops.AssignVariableOp(resource=counter, value=read + 1)]):
            number = tf.identity(number)
        examples = []
        for handle, dtype, shape in self._examples:
            tensor = tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)
            tensor.set_shape(shape)
            examples.append(tensor)
        whole = tf.nest.pack_sequence_as(self._structure, examples)
        return tf.nest.flatten(self._carried.batch(whole, number))

    def start(self, session: tf.compat.v1.Session) -> None:
        """A session begins."""
        session.run(self._fill)


def take_over(batches: Sequence[Any], plan: Plan, targets: Sequence[tf.Operation]) -> InGraph | None:
    """Lets a step, which is there, take its batches itself. What read of the iterators reads of these.

    Args:
        batches: what the input_fn has returned each time that it was called in this graph.
        targets: operations of the step.

    Returns:
        None: the step asks iterators, as before. It may not take the batches itself, or it is not certain that it would
        get the same.
    """
    carried = usable(batches[0], plan) if len(batches) == 1 else None
    if carried is None:
        return None
    graph, variant = targets[0].graph, tf.data.experimental.to_variant(batches[0])
    with lacks.or_without():
        asking = _asking(graph, variant, carried.replicas)
        if asking is None or set(asking) & set(targets):
            return None
        with graph.device('/cpu:0'), graph.colocate_with(None, ignore_existing=True), graph.control_dependencies(None):
            taken = InGraph(carried)
            tensors = [taken.batch(replica) for replica in range(carried.replicas)]
        for op, of_replica in zip(asking, tensors):
            if [_signature(tensor) for tensor in op.outputs] != [_signature(tensor) for tensor in of_replica]:
                return None
        for op, of_replica in zip(asking, tensors):
            for given, tensor in zip(op.outputs, of_replica):
                for reader, number in _uses(given):
                    graphs.replace_input(reader, number, tensor)
        return taken
    return None


def _variable(name: str, value: tf.Tensor) -> tf.Tensor:
    """The handle of a variable of the session."""
    return tf.raw_ops.VarHandleOp(dtype=value.dtype, shape=value.shape, shared_name=f'estimator_trainer/{name}')


def _asking(graph: tf.Graph, variant: tf.Tensor, replicas: int) -> list[tf.Operation] | None:
    """The operations that ask for the batch of each replica; None: others ask for batches of this data set or of
    another one, or the graph is none that Estimator makes.

    Args:
        variant: the data set.
    """
    asking = [op for op in graph.get_operations() if op.type.startswith('IteratorGetNext')]
    by_replica = {tf.DeviceSpec.from_string(op.device).device_index or 0: op for op in asking}
    if len(asking) != replicas or sorted(by_replica) != list(range(replicas)):
        return None
    return [by_replica[n] for n in range(replicas)] if all(_is_simple(op, variant, replicas) for op in asking) else None


def _is_simple(op: tf.Operation, variant: tf.Tensor, replicas: int) -> bool:
    """Whether nobody else asks the iterator, and nobody waits for the operation without reading a tensor of it."""
    if graphs.is_in_control_flow(op) or graphs.controlled_by(op) or op.control_inputs:
        return False
    users = sorted(op.inputs[0].consumers(), key=lambda user: user.type)
    if [user.type for user in users] != _OF_ITERATOR or users[1].outputs[0].consumers():
        return False
    source = _source(users[2].inputs[0])
    if replicas == 1:
        return source == _source(variant)
    # Under a MirroredStrategy: each replica has a data set of its own that asks an iterator over all devices.
    fills = [tensor.op for tensor in source.inputs if tensor.op.type == 'MultiDeviceIteratorInit']
    return source.type == 'GeneratorDataset' and len(fills) == 1 and _source(fills[0].inputs[0]) == _source(variant)


def _source(variant: tf.Tensor) -> tf.Operation:
    """The data set of the same elements that is read first."""
    op = variant.op
    while op.type in ('OptionsDataset', 'PrefetchDataset'):
        op = op.inputs[0].op
    return op


def _uses(tensor: tf.Tensor) -> list[tuple[tf.Operation, int]]:
    return [
        (reader, number)
        for reader in dict.fromkeys(tensor.consumers())
        for number, read in enumerate(reader.inputs)
        if read.name == tensor.name
    ]


def _signature(tensor: tf.Tensor) -> tuple[tf.DType, list[int | None] | None]:
    return tensor.dtype, tensor.shape.as_list() if tensor.shape.rank is not None else None


class Iterator:
    """The batches of a Keras loop, in place of the iterator over its distributed data set.

    Args:
        carried: of the data set.
        strategy: of the training.
    """

    def __init__(self, carried: pipeline.InMemory, strategy: tf.distribute.Strategy):
        self._carried, self._strategy = carried, strategy
        self._examples = carried.whole.get_single_element()
        with tf.device('/cpu:0'):
            self._counter = tf.Variable(0, dtype=tf.int64, trainable=False)

    def get_next_as_optional(self) -> '_Batch':
        with tf.device('/cpu:0'):
            first = self._counter.read_value() * self._carried.replicas
            self._counter.assign_add(1)
            if self._carried.replicas == 1:
                return _Batch(self._carried.batch(self._examples, first))
            return _Batch(
                self._strategy.experimental_distribute_values_from_function(
                    lambda context: self._carried.batch(self._examples, first + context.replica_id_in_sync_group)
                )
            )


class _Batch:
    """As tf.experimental.Optional. There always is a batch."""

    def __init__(self, batch: Any):
        self._batch = batch

    def has_value(self) -> bool:
        return True

    def get_value(self) -> Any:
        return self._batch
