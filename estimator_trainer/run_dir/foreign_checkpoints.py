"""The file `checkpoint` of a model_dir may name checkpoints of another folder, such as those of the run it was copied
from. TensorFlow's Savers take all that it lists for their own, and remove them as newer ones come."""

import glob
import logging
import os
import shutil

import tensorflow as tf

from estimator_trainer.run_dir import checkpoint_errors, checkpoint_state, file_names, files, v1_checkpoints

_log = logging.getLogger('estimator_trainer')


def take_in(model_dir: str) -> None:
    """Copies the checkpoint that is named into the model_dir, and leaves none of another folder in the list.

    Raises:
        CannotReadCheckpoint: it cannot be copied now.
    """
    state = checkpoint_state.read(model_dir)
    if state is None or all(_is_in(model_dir, path) for path in [*state.all_model_checkpoint_paths]):
        return
    named = file_names.without_shards(state.model_checkpoint_path)
    if not _is_there(_inside(model_dir, named)):
        if not _is_there(named):
            return  # `checkpoints.set_aside_damaged` goes on from another one
        _copy(named, model_dir)
    listed = [_inside(model_dir, file_names.without_shards(path)) for path in state.all_model_checkpoint_paths]
    tf.compat.v1.train.update_checkpoint_state(
        os.path.abspath(model_dir),
        os.path.basename(named),
        [os.path.basename(path) for path in listed if _is_there(path)],
    )


def _copy(prefix: str, model_dir: str) -> None:
    index = f'{prefix}.index'
    first = {*glob.glob(f'{glob.escape(prefix)}.*'), *v1_checkpoints.files(prefix)} - {index}
    for file in (*sorted(first), *filter(checkpoint_errors.exists, [index])):  # with its index a checkpoint is there
        try:
            with files.replacing(_inside(model_dir, file), durable=True) as temporary:
                shutil.copyfile(file, temporary)
        except OSError as error:
            raise checkpoint_errors.CannotReadCheckpoint.because(error, file) from error
    _log.info('checkpoint %s is copied from %s', os.path.basename(prefix), os.path.dirname(prefix))


def _is_there(prefix: str) -> bool:
    return checkpoint_errors.exists(f'{prefix}.index') or bool(v1_checkpoints.files(prefix))


def _is_in(folder: str, path: str) -> bool:
    return os.path.dirname(os.path.abspath(path)) == os.path.abspath(folder)


def _inside(folder: str, path: str) -> str:
    return os.path.join(folder, os.path.basename(path))
