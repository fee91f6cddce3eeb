"""How many batches a session asks for.

A job may read batches outside its steps: hooks and init functions that have the session can, and Estimator's KMeans
reads one to begin with. A run that resumes goes on behind all that have been read, so `count_reads` counts them.
"""

from collections.abc import Iterable

import tensorflow as tf

from estimator_trainer.compat import lacks
from estimator_trainer.compat.patches import graphs
from estimator_trainer.training import step_graph


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

    def number(self, session: tf.compat.v1.Session) -> int:
        """So far. A batch that was asked for and did not come counts as well."""
        return int(session.run(self._number))


def count_reads(targets: Iterable[tf.Operation]) -> BatchReads | None:
    """Counts what a step, which needs the targets, and others read from its iterator.

    Returns:
        None where the step asks no iterator or several, or asks one under a condition of TensorFlow 1.
    """
    with lacks.or_without():
        asking = [op for op in step_graph.needed(targets) if op.type in step_graph.ASKS]
        if len(asking) == 1 and not graphs.is_in_control_flow(asking[0]):
            return BatchReads(asking[0])
    return None
