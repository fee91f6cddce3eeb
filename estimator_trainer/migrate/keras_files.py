"""Checkpoints in the form that `--loop=keras_fit` and `--loop=custom_loop` use."""

import os

import tensorflow as tf


def latest(model_dir: str):
    """The prefix of the newest one; None where there is none."""
    return tf.train.latest_checkpoint(model_dir)


def write(model_dir: str, companion) -> str:
    """Writes the model and its optimizer as the newest checkpoint of a model_dir; its prefix."""
    prefix = os.path.join(model_dir, f'ckpt-{companion.step}')
    written = _checkpoint(companion).write(prefix)
    tf.train.update_checkpoint_state(model_dir, os.path.basename(written)) if hasattr(
        tf.train, 'update_checkpoint_state') else tf.compat.v1.train.update_checkpoint_state(
        model_dir, os.path.basename(written), [os.path.basename(written)])
    return written


def restore(prefix: str, companion) -> None:
    """Gives the model and its optimizer the values of a checkpoint."""
    _checkpoint(companion).read(prefix).expect_partial()


def _checkpoint(companion):
    return tf.train.Checkpoint(model=companion.model, optimizer=companion.optimizer)
