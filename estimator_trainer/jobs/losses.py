"""Makes the loss of a step from the losses of single examples, on any number of replicas.

Two replicas with the losses [2, 3] and [4, 5] have the mean loss (2 + 3 + 4 + 5) / 4 = 3.5. A replica's share is the
sum of its losses over the size of the *global* batch: 5/4 and 9/4. Shares are summed, and so are their gradients. If
the shares were averaged over the replicas once more, the loss would be (5/4 + 9/4) / 2 = 1.75.
"""

import tensorflow as tf

from estimator_trainer.data import batch


def of_examples(losses):
    """One loss for each example, [batch], of losses [batch, ...]: the mean over an example's own parts,
    such as its pixels. tf.nn.compute_average_loss would sum these."""
    axes = list(range(1, losses.shape.rank))
    return tf.reduce_mean(losses, axis=axes) if axes else losses


def global_examples(losses):
    """How many examples all replicas have in this step, an int32 scalar. Called in every replica.

    A static size must be that of every batch in every replica, as it is in a graph that takes batches
    from a data set. Where there is none a batch may be short, here or in another replica: then the
    replicas add up what they have. A tensor from outside the graph has a static size of its own: a
    tf.function that is given batches needs the data set's element_spec as its signature.
    """
    context = tf.distribute.get_replica_context()
    if losses.shape[0] is not None:
        return tf.constant(losses.shape[0] * context.num_replicas_in_sync)
    if context.num_replicas_in_sync == 1:
        return tf.shape(losses)[0]
    here = tf.cast(tf.shape(losses)[0], tf.float32)
    return tf.cast(tf.round(context.all_reduce(tf.distribute.ReduceOp.SUM, here)), tf.int32)


def share(losses, penalty=None):
    """This replica's part of the global batch's loss: the parts are summed over the replicas.

    Args:
        losses: [batch, ...], not reduced. A replica that has come to the end of the data has none.
        penalty: on the weights; the same in every replica, it counts once.
    """
    losses = of_examples(losses)
    part = tf.nn.compute_average_loss(losses, global_batch_size=global_examples(losses))
    return part if penalty is None else part + tf.nn.scale_regularization_loss(penalty)


def of_replica(losses, penalty=None):
    """The loss that a model_fn gives Estimator, whose optimizers divide it by the number of replicas:
    `share`, multiplied by that."""
    losses = of_examples(losses)
    replicas = tf.distribute.get_replica_context().num_replicas_in_sync
    examples = tf.cast(global_examples(losses), losses.dtype)
    # As tf.nn.compute_average_loss has it, which leaves operations in Estimator's graph that nobody uses.
    loss = tf.math.divide_no_nan(tf.reduce_sum(losses), examples) * replicas
    return loss if penalty is None else loss + penalty


def outputs_of(model, features, training: bool):
    """What a model gives for a batch that may be empty.

    A replica that has come to the end of the data computes one example of zeros, which counts nothing:
    the gradient of a convolution over no example ends the process, and a mean over none is not a number.
    """
    if batch.static_size(features) is not None:
        return model(features, training=training)
    count = batch.size(features)
    missing = tf.cast(tf.equal(count, 0), tf.int32)
    outputs = model(batch.with_zeros(features, missing), training=training)
    return tf.nest.map_structure(lambda tensor: tensor[:count], outputs)


def of_step(model, parts, params, features, labels):
    """One replica's part of a training step.

    Returns:
        (the losses of its examples [batch, ...], its share of the global batch's loss, the outputs)
    """
    outputs = outputs_of(model, features, training=True)
    losses = parts.loss(labels, outputs, params)
    penalty = parts.penalty(model, params) if parts.penalty else None
    return losses, share(losses, penalty), outputs
