"""Checkpoints in the form of `--loop=keras_fit` and `--loop=custom_loop`; see training.keras_training."""

import tensorflow as tf

from estimator_trainer.training import keras_training


def write(model_dir: str, keras) -> str:
    """Writes the model and its optimizer as the newest checkpoint of a model_dir; its prefix."""
    manager = tf.train.CheckpointManager(
        _checkpoint(keras), model_dir, max_to_keep=None, checkpoint_name=keras_training.CHECKPOINT_NAME
    )
    return manager.save(checkpoint_number=keras.step)


def restore(prefix: str, keras) -> None:
    """Gives the model and its optimizer the values of a checkpoint."""
    _checkpoint(keras).restore(prefix).expect_partial()


def _checkpoint(keras):
    optimizer = keras.optimizer
    return tf.train.Checkpoint(model=keras.model, optimizer=optimizer, global_step=optimizer.iterations)
