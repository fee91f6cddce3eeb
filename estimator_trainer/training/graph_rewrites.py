"""What TensorFlow itself makes of an Estimator's graph, and what it has made of it: --mixed_precision."""

import logging
from collections.abc import Iterable

import tensorflow as tf
from tensorflow.core.protobuf import rewriter_config_pb2

from estimator_trainer.compat.patches import estimators
from estimator_trainer.config import mixed_precision
from estimator_trainer.jobs.job_types import Estimator
from estimator_trainer.training.plan import Plan

_log = logging.getLogger('estimator_trainer')
v1 = tf.compat.v1


def ask_for(estimator: Estimator, plan: Plan) -> list[tf.compat.v1.train.SessionRunHook]:
    """Lets TensorFlow rewrite the graphs of the sessions in which `estimator` trains.

    Returns:
        Hooks that say what it has done.
    """
    kind = plan.config.mixed_precision
    if kind is None:
        return []

    def change(config: tf.compat.v1.ConfigProto) -> None:
        setattr(config.graph_options.rewrite_options, mixed_precision.REWRITE, rewriter_config_pb2.RewriterConfig.ON)

    estimators.change_session(estimator, change)
    is_local = not (plan.is_multi_worker or plan.uses_parameter_servers)
    return [_Counts(kind)] if is_local else []


class _Counts(tf.estimator.SessionRunHook):
    """Says of the first call how many operations compute in 16 bits. The session has their graph ready."""

    def __init__(self, kind: str):
        self._kind, self._asks = kind, True

    def before_run(self, run_context: tf.compat.v1.train.SessionRunContext) -> tf.compat.v1.train.SessionRunArgs | None:
        return v1.train.SessionRunArgs([], options=v1.RunOptions(output_partition_graphs=True)) if self._asks else None

    def after_run(
        self, run_context: tf.compat.v1.train.SessionRunContext, run_values: tf.compat.v1.train.SessionRunValues
    ) -> None:
        if self._asks:
            self._asks = False
            has_acted, text = mixed_precision.counted(
                self._kind, *_operations(run_values.run_metadata.partition_graphs, tf.as_dtype(self._kind))
            )
            _log.log(logging.INFO if has_acted else logging.WARNING, '%s', text)


def _operations(graphs: Iterable[tf.compat.v1.GraphDef], dtype: tf.DType) -> tuple[int, int]:
    """The operations of some graphs that compute in a type, and those that convert to or from it."""
    computing = casts = 0
    for graph in graphs:
        for node in [*graph.node, *(node for function in graph.library.function for node in function.node_def)]:
            if node.op == 'Cast':
                casts += dtype.as_datatype_enum in (node.attr['SrcT'].type, node.attr['DstT'].type)
            else:
                computing += node.attr['T'].type == dtype.as_datatype_enum
    return computing, casts
