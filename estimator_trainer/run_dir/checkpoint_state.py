"""The file `checkpoint` of a model_dir, which names the newest checkpoint and lists those that are kept."""

import os
from typing import Any

import tensorflow as tf

from estimator_trainer.run_dir import checkpoint_errors, file_names


def check_readable(model_dir: str) -> None:
    """Raises CannotReadCheckpoint if the file is there and may not be read now: TensorFlow takes it for absent."""
    path = os.path.join(model_dir, file_names.POINTER)
    try:
        with open(path, 'rb') as file:
            file.read()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise checkpoint_errors.CannotReadCheckpoint.because(error, path) from error


@checkpoint_errors.patient
def read(model_dir: str) -> Any:
    """A CheckpointState, with absolute paths where the file has relative ones; None where it names no checkpoint.

    Raises:
        CannotReadCheckpoint: the file cannot be read now.
    """
    check_readable(model_dir)
    try:
        state = tf.train.get_checkpoint_state(model_dir)
    except (tf.errors.OpError, ValueError):
        return None
    return state if state and state.model_checkpoint_path else None
