"""Lets no operation of a step change anything before the step has its batch.

Not all updates of a step read its batch: AdamOptimizer of TensorFlow 1 first decays the moments of a whole embedding
table. If the batch never comes, because the data have ended or a file is damaged, a session has done such updates all
the same, and what is saved then is the state of no step.

Who runs such an operation outside the step would read a batch by it. So operations that only read do not wait, and
nothing waits where a hook of the job's own may run anything.
"""

from collections.abc import Iterable

import tensorflow as tf

from estimator_trainer.compat import lacks
from estimator_trainer.compat.patches import graphs
from estimator_trainer.training import step_functions, waits

v1 = tf.compat.v1


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
    with lacks.or_without(graphs.__file__):
        _let_wait(waits.needed(targets))


def _may_run_anything(hook) -> bool:
    """TensorFlow's own hooks run what belongs to the step together with the step, but for FinalOpsHook."""
    package = type(hook).__module__.partition('.')[0]
    return isinstance(hook, v1.train.FinalOpsHook) or package not in ('tensorflow', 'tensorflow_estimator')


def _let_wait(ops) -> None:
    functions = step_functions.Functions(ops[0].graph)
    writes = [op for op in ops if functions.may_write(op) and not graphs.is_in_control_flow(op)]
    for asking in ops:
        if asking.type not in waits.ASKS or graphs.is_in_control_flow(asking):
            continue
        after, before = _after(asking), set(waits.needed([asking]))
        for op in writes:
            if op not in after and op not in before:
                graphs.run_after(op, asking)


def _after(op) -> set[tf.Operation]:
    """The operations that wait for this one, and it."""
    found, left = set(), [op]
    while left:
        op = left.pop()
        if op not in found:
            found.add(op)
            left += [consumer for tensor in op.outputs for consumer in tensor.consumers()]
            left += graphs.controlled_by(op)
    return found
