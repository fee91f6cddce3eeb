"""A model_fn may supply the evaluation metric `loss` itself, if it says so in its graph.

Touches: tensorflow_estimator.python.estimator.estimator._verify_and_create_loss_metric
Without it: a model_fn may not supply the evaluation metric "loss" itself, so that a short last batch counts as much as
  a full one
For: every program
"""

import functools

COLLECTION = 'estimator_trainer/own_loss_metric'  # of a graph: anything in it says so


def mend(module) -> None:
    """Mends `tensorflow_estimator.python.estimator.estimator`."""
    original = module._verify_and_create_loss_metric

    @functools.wraps(original)
    def verify(eval_metric_ops, loss, distribution=None):
        import tensorflow as tf

        if 'loss' in eval_metric_ops and tf.compat.v1.get_collection(COLLECTION):
            return eval_metric_ops
        return original(eval_metric_ops, loss, distribution)

    module._verify_and_create_loss_metric = verify
