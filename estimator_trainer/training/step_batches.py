"""The batches in the graph of a step: nothing changes before they are there, and what reads and waits is measured.

Not all updates of a step read its batch: AdamOptimizer of TensorFlow 1 first decays the moments of a whole embedding
table. If the batch never comes, because the data have ended or a file is damaged, a session has done such updates all
the same, and what is saved then is the state of no step. So `wait_for_batch` lets them wait. Who runs such an operation
outside the step would read a batch by it: operations that only read do not wait, and nothing waits where a hook of the
job's own may run anything.

A job may read batches outside its steps: hooks and init functions that have the session can, and Estimator's KMeans
reads one to begin with. A run that resumes goes on behind all that have been read, so `count_reads` counts them.
"""

from collections.abc import Iterable

import tensorflow as tf

from estimator_trainer.compat import lacks
from estimator_trainer.compat.patches import eager_context, graphs
from estimator_trainer.training import step_functions

v1 = tf.compat.v1


def needed(ops: Iterable[tf.Operation]) -> list[tf.Operation]:
    """The operations without which some operations cannot run, and these."""
    seen: dict[tf.Operation, None] = {}
    left = list(ops)
    while left:
        op = left.pop()
        if op not in seen:
            seen[op] = None
            left += [*(tensor.op for tensor in op.inputs), *op.control_inputs]
    return list(seen)


def wait_for_batch(targets: Iterable[tf.Operation], hooks: Iterable = ()) -> None:
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


def _may_run_anything(hook) -> bool:
    """TensorFlow's own hooks run what belongs to the step together with the step, but for FinalOpsHook."""
    package = type(hook).__module__.partition('.')[0]
    return isinstance(hook, v1.train.FinalOpsHook) or package not in ('tensorflow', 'tensorflow_estimator')


def _let_wait(ops) -> None:
    functions = step_functions.Functions(ops[0].graph)
    writes = [op for op in ops if functions.may_write(op) and not graphs.is_in_control_flow(op)]
    for asking in ops:
        if asking.type not in step_functions.ASKS or graphs.is_in_control_flow(asking):
            continue
        after, before = _after(asking), set(needed([asking]))
        for op in writes:
            if op not in after and op not in before:
                graphs.run_after(op, asking)


def _after(op) -> set[tf.Operation]:
    """The operations that wait for this one, and it."""
    seen, left = set(), [op]
    while left:
        op = left.pop()
        if op not in seen:
            seen.add(op)
            left += [consumer for tensor in op.outputs for consumer in tensor.consumers()]
            left += graphs.controlled_by(op)
    return seen


class BatchReads:
    """How often the session of a graph has asked the iterator of its step for a batch.

    An accumulator counts. Other than a variable it needs no initialization, so that init functions may read as well.

    Args:
        asking: the operation that asks.
    """

    def __init__(self, asking: tf.Operation):
        with asking.graph.device('/cpu:0'), asking.graph.control_dependencies(None):
            counter = tf.raw_ops.ResourceConditionalAccumulator(
                dtype=tf.float32, shape=[], shared_name='estimator_trainer_batch_reads'
            )
            self._number = tf.raw_ops.ResourceAccumulatorNumAccumulated(handle=counter)
            count = tf.raw_ops.ResourceAccumulatorApplyGradient(
                handle=counter, local_step=tf.constant(0, tf.int64), gradient=tf.constant(0.0)
            )
        graphs.run_after(asking, count)

    def number(self, session) -> int:
        """So far. A batch that was asked for and did not come counts as well."""
        return int(session.run(self._number))


def count_reads(targets: Iterable[tf.Operation]) -> BatchReads | None:
    """Counts what a step, which needs the targets, and others read from its iterator.

    Returns:
        None where the step asks no iterator or several, or asks one under a condition of TensorFlow 1.
    """
    with lacks.or_without():
        asking = [op for op in needed(targets) if op.type in step_functions.ASKS]
        if len(asking) == 1 and not graphs.is_in_control_flow(asking[0]):
            return BatchReads(asking[0])
    return None


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


def _measured(ops) -> tf.Tensor | None:
    asking = [op for op in ops if op.type in step_functions.ASKS]
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
