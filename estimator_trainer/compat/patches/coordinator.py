"""Lets our `restore/estimator_training.py` run every cluster whose RunConfig has a strategy, on every TensorFlow.

Touches: the name distribute_coordinator_training in the modules estimator, run_config and training of Estimator
Without it: train_and_evaluate under a strategy: a bare KeyError: 'evaluator' for an evaluator that the cluster does
  not list, TrainSpec.saving_listeners dropped, silence when nobody evaluates
For: every program
"""


def mend(module) -> None:
    """Mends a module of tensorflow_estimator."""
    from estimator_trainer.compat.restore import estimator_training

    module.distribute_coordinator_training = estimator_training
