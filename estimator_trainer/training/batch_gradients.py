"""The forward and backward pass of one batch in keras_fit and custom_loop. With --xla, XLA compiles it."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_trainer.data import batch as batches
from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import losses
from estimator_trainer.jobs.job import KerasParts
from estimator_trainer.jobs.job_types import KerasModel, Tensors
from estimator_trainer.training import loss_scaling, step_graph

# (features, labels, scale of the loss or None) -> the losses of the examples [batch, ...], this replica's share of the
# loss, the outputs of the model, and a gradient for each trainable variable.
Pass = Callable[[Tensors, Tensors, tf.Tensor | None], tuple[tf.Tensor, tf.Tensor, Tensors, list[Any]]]


def make(model: KerasModel, parts: KerasParts, params: dict[str, Any], xla: bool) -> Pass:
    """Makes the pass of a model.

    Args:
        xla: compiles it. Metrics, all-reduces and the optimizer stay outside: the first two cannot be compiled.

    Raises, when it is called with xla:
        UsageError: it draws random numbers from a seed, which XLA ignores; or batches of several replicas have no
            fixed size.
    """

    def gradients(
        features: Tensors, labels: Tensors, scale: tf.Tensor | None
    ) -> tuple[tf.Tensor, tf.Tensor, Tensors, list[Any]]:
        with tf.GradientTape() as tape:
            of_examples, share, outputs = losses.of_step(model, parts, params, features, labels)
            scaled = share if scale is None else share * tf.cast(scale, share.dtype)
        of_weights = tape.gradient(scaled, model.trainable_variables)
        return of_examples, share, outputs, of_weights if scale is None else loss_scaling.unscaled(of_weights, scale)

    def checked(
        features: Tensors, labels: Tensors, scale: tf.Tensor | None
    ) -> tuple[tf.Tensor, tf.Tensor, Tensors, list[Any]]:
        if tf.distribute.get_replica_context().num_replicas_in_sync > 1 and batches.static_size(features) is None:
            raise UsageError(
                '--xla: with several replicas each batch needs the same size, because XLA compiles no all-reduce of '
                'sizes; let the input_fn repeat its data and batch with drop_remainder=True, or leave --xla out.'
            )
        results = gradients(features, labels, scale)
        _refuse_draws(tf.compat.v1.get_default_graph().as_graph_def())
        return results

    return tf.function(checked, jit_compile=True) if xla else gradients


def _refuse_draws(graph: tf.compat.v1.GraphDef) -> None:
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    draws = next((node for node in nodes if step_graph.draws(node)), None)
    if draws is not None:
        raise UsageError(
            f'--xla: the step draws random numbers ({draws.op} {draws.name}), and XLA ignores their seeds; leave --xla '
            'out.'
        )
