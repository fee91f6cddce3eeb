"""Refuses a checkpoint whose variables have other shapes than those of the graph.

TensorFlow restores them without a word: the value of a variable then has another shape than the graph says, and some
operation fails, or training goes on.
"""

import os

import tensorflow as tf

from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import checkpoint_errors


def refuse_others(checkpoint: str | None, scaffold) -> None:
    """Looks at the variables of the default graph that have the name of one in the checkpoint.

    Args:
        checkpoint: its prefix; None: nothing is restored.
        scaffold: of the graph, or None. If it has a Saver of its own, that one decides what is restored.

    Raises:
        UsageError: one has another shape.
    """
    if checkpoint is None or (scaffold and scaffold.saver):
        return
    try:
        saved = tf.train.load_checkpoint(checkpoint).get_variable_to_shape_map()
    except checkpoint_errors.UNREADABLE:  # who restores it says why
        return
    for variable in tf.compat.v1.global_variables():
        name = variable.name.partition(':')[0]
        if name in saved and not variable.shape.is_compatible_with(saved[name]):
            raise UsageError(
                f'the variable {name} has the shape {variable.shape.as_list()} in the model, and {saved[name]} in '
                f'{os.path.basename(checkpoint)}, which would be restored: the model has changed since it was saved. '
                'Use another --model_dir, or give the model its old sizes.'
            )
