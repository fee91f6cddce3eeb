"""Canned Estimators report the loss of a step as one process does, whatever the number of replicas.

Touches: head.base_head.create_estimator_spec_train_op of Estimator, and Graph._is_loss_scaled_by_optimizer
Without it: canned Estimators under a strategy report the training loss times the number of replicas
For: every program
"""

import functools

from estimator_trainer.compat import lacks


def mend(module) -> None:
    """Mends `tensorflow_estimator.python.estimator.head.base_head`."""
    original = module.create_estimator_spec_train_op

    @functools.wraps(original)
    def create(*args, **kwargs):
        import tensorflow as tf

        train_op = original(*args, **kwargs)
        mean = tf.losses.Reduction.SUM_OVER_BATCH_SIZE
        if kwargs.get('loss_reduction', mean) == mean and tf.distribute.get_strategy().num_replicas_in_sync > 1:
            # As V1 optimizers say it: the gradients are of a mean, so the loss to report is one, too.
            graph = tf.compat.v1.get_default_graph()
            with lacks.refused():
                if not graph._is_loss_scaled_by_optimizer:
                    graph._is_loss_scaled_by_optimizer = True
        return train_op

    module.create_estimator_spec_train_op = create
