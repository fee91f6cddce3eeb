"""Makes the loss of a step from the losses of single examples, on any number of replicas.

Two replicas with the losses [2, 3] and [4, 5] have the mean loss (2 + 3 + 4 + 5) / 4 = 3.5. A replica's share is the
sum of its losses over the size of the *global* batch: 5/4 and 9/4. Shares are summed, and so are their gradients. If
the shares were averaged over the replicas once more, the loss would be (5/4 + 9/4) / 2 = 1.75.
"""

import contextlib
import functools
import logging
import threading
from collections.abc import Callable, Iterator

import tensorflow as tf

from estimator_trainer.data import batch
from estimator_trainer.errors import UsageError
from estimator_trainer.jobs.job import KerasParts
from estimator_trainer.jobs.job_types import KerasMetric, KerasModel, Params, Tensors

_log = logging.getLogger('estimator_trainer')
_of_thread = threading.local()
_MASK = '_keras_mask'  # the attribute of a tensor in which Keras 2 keeps it


def of_examples(losses: tf.Tensor) -> tf.Tensor:
    """One loss for each example, [batch], from losses [batch, ...].

    It is the mean over the parts of an example, such as its pixels. tf.nn.compute_average_loss would sum these.

    Raises:
        ValueError: it is a scalar.
    """
    if losses.shape.rank == 0:
        raise ValueError(
            'The loss of a job is one number for each example, [batch, ...]; got a scalar: do not reduce it.'
        )
    axes = list(range(1, losses.shape.rank))
    return tf.reduce_mean(losses, axis=axes) if axes else losses


def global_examples(losses: tf.Tensor) -> tf.Tensor:
    """The number of examples that all replicas have in this step, an int32 scalar. Every replica calls this.

    If `losses` has a static size, every batch of every replica must have this size. It has, in a graph that takes
    batches from a data set. Without a static size the batch of a replica may be short, so the replicas add up the
    sizes of their batches. A tensor from outside the graph always has a static size. So a tf.function that takes
    batches as arguments needs the element_spec of the data set as its signature.

    With --accumulate_steps these are the examples of all batches of all replicas (`counting`).
    """
    context = tf.distribute.get_replica_context()
    size = tf.compat.dimension_value(losses.shape[0])
    if size is not None:
        return tf.constant(size * context.num_replicas_in_sync)
    count = getattr(_of_thread, 'count', None)
    if count:
        return count(tf.shape(losses)[0])
    return tf.shape(losses)[0] if context.num_replicas_in_sync == 1 else over_replicas(tf.shape(losses)[0])


def over_replicas(number: tf.Tensor) -> tf.Tensor:
    """The sum of a number, an int32 scalar, over all replicas. Every replica calls this."""
    context = tf.distribute.get_replica_context()
    return tf.cast(tf.round(context.all_reduce(tf.distribute.ReduceOp.SUM, tf.cast(number, tf.float32))), tf.int32)


@contextlib.contextmanager
def counting(count: Callable[[tf.Tensor], tf.Tensor]) -> Iterator[None]:
    """Within it, in this thread, `global_examples` asks `count` where batches may be short.

    Args:
        count: (number of losses of one batch, an int32 scalar) -> the number of examples of the step, likewise.
    """
    before, _of_thread.count = getattr(_of_thread, 'count', None), count
    try:
        yield
    finally:
        _of_thread.count = before


def checked_count(losses: tf.Tensor, examples: tf.Tensor, of_step: tf.Tensor) -> tf.Tensor:
    """`of_step`, the examples of a step, which are counted before any loss is computed. So a batch whose losses are not
    as many as its examples is an error. All are int32 scalars."""
    check = tf.debugging.assert_equal(
        losses,
        examples,
        '--accumulate_steps: a batch has not as many losses as examples; let the loss of the job give one for each '
        'example, leave the flag out, or let all batches have one size.',
    )
    with tf.control_dependencies([check] if check is not None else []):
        return tf.identity(of_step)


def share(losses: tf.Tensor, penalty: tf.Tensor | float | None = None) -> tf.Tensor:
    """This replica's share of the loss of the global batch, a scalar. The sum over all replicas is the loss.

    Args:
        losses: [batch, ...], not reduced. The batch is empty in a replica that has come to the end of the data.
        penalty: on the weights. It is the same in every replica, and counts once.
    """
    part = _share_without_penalty(of_examples(losses))
    return part if penalty is None else part + tf.nn.scale_regularization_loss(penalty)


def of_replica(losses: tf.Tensor, penalty: tf.Tensor | float | None = None) -> tf.Tensor:
    """The loss that a model_fn returns, a scalar.

    It is `share` times the number of replicas, because the optimizers of Estimator divide by this number.
    """
    replicas = tf.distribute.get_replica_context().num_replicas_in_sync
    loss = _share_without_penalty(of_examples(losses)) * replicas
    return loss if penalty is None else loss + penalty


def _share_without_penalty(losses: tf.Tensor) -> tf.Tensor:
    """tf.nn.compute_average_loss computes the same, but leaves its checks of the batch size in each step."""
    examples = tf.cast(global_examples(losses), losses.dtype)
    return tf.math.divide_no_nan(tf.reduce_sum(losses), examples)


def outputs_of(model: KerasModel, features: Tensors, training: bool) -> Tensors:
    """The outputs of a model for a batch that may be empty.

    A replica that has come to the end of the data computes one example of zeros, and drops its outputs. Without any
    example, the gradient of a convolution ends the process, and a mean is not a number.
    """
    if batch.static_size(features) is not None:
        return model(features, training=training)
    missing = tf.cast(tf.equal(batch.size(features), 0), tf.int32)
    averages = _averages_of(model) if training else []
    before = [average.read_value() for average in averages]
    outputs = model(batch.with_zeros(features, missing), training=training)
    for average, value in zip(averages, before):
        average.assign(tf.where(missing > 0, value, average.read_value()))

    def of_given_examples(output: tf.Tensor) -> tf.Tensor:
        rank = output.shape.rank
        if rank == 0 or (rank and output.shape[0] is not None):  # it does not grow with the batch
            return output
        given = tf.where(missing > 0, 0, tf.shape(output)[0])  # an output may have several rows for an example
        return with_mask_of(output, output[:given], lambda mask: mask[:given])

    return tf.nest.map_structure(of_given_examples, outputs)


def _averages_of(model: KerasModel) -> list[tf.Variable]:
    """What each of several replicas keeps for itself, such as the moving averages of a BatchNormalization. An Estimator
    updates them in operations of its own."""
    if tf.distribute.get_strategy().num_replicas_in_sync == 1 or not tf.compat.v1.executing_eagerly_outside_functions():
        return []
    on_read = tf.VariableSynchronization.ON_READ
    return [variable for variable in model.non_trainable_variables if variable.synchronization == on_read]


def with_mask_of(
    output: tf.Tensor, result: tf.Tensor, change: Callable[[tf.Tensor], tf.Tensor] = lambda mask: mask
) -> tf.Tensor:
    """`result`, which was made of an output of a model, with the mask that Keras has left on that output: its losses
    and metrics leave out what is masked."""
    mask = getattr(output, _MASK, None)
    if mask is not None:
        setattr(result, _MASK, change(mask))
    return result


def metrics_of(parts: KerasParts, params: Params) -> dict[str, KerasMetric]:
    """Makes the metrics of a job; {} if it has none.

    Raises:
        UsageError: one of them has the name of the trainer's own.
    """
    metrics = dict(parts.metrics(params)) if parts.metrics else {}
    if 'loss' in metrics:
        raise UsageError("KerasParts.metrics: the trainer itself reports 'loss'; give this metric another name.")
    return metrics


def warn_of_unused(model: KerasModel, parts: KerasParts) -> None:
    """Says once that the model has losses of its own, if the job has no penalty that could contain them. It may add
    operations to a graph under construction, so it comes last: later ones that draw would have another seed."""
    if parts.penalty is None and model.losses:
        say_unused()


@functools.cache
def say_unused() -> None:
    _log.warning(
        'WARNING: the model has losses of its own (regularizers of its layers, or add_loss), and nothing adds them to '
        'the loss of the job: give KerasParts a `penalty`, such as `lambda model, params: tf.add_n(model.losses)` for '
        'regularizers (docs/jobs.md)'
    )


def of_step(
    model: KerasModel, parts: KerasParts, params: Params, features: Tensors, labels: Tensors
) -> tuple[tf.Tensor, tf.Tensor, Tensors]:
    """The losses of one replica in a training step.

    Returns:
        The losses of the replica's examples [batch, ...], its share of the loss of the global batch (a scalar), and
        the outputs of the model.
    """
    outputs = outputs_of(model, features, training=True)
    losses = parts.loss(labels, outputs, params)
    penalty = parts.penalty(model, params) if parts.penalty else None
    return losses, share(losses, penalty), outputs
