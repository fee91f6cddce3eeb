"""Reads one checkpoint: its variables, its step, and whether it is whole."""

import os

import tensorflow as tf
from google.protobuf.message import DecodeError

from estimator_trainer.run_dir import bundle, checkpoint_errors, checkpoints, file_names, v1_checkpoints
from estimator_trainer.tools.inspection import roles, variables
from estimator_trainer.tools.inspection.facts import Checkpoint
from estimator_trainer.tools.inspection.variables import Variable

CHECKSUMS, SIZES = 'checksums', 'sizes'
NO_INDEX = 'its index is missing'


def read(root: str, name: str, files: list[str], checksums: bool) -> Checkpoint:
    """Reads a checkpoint as far as it can be read.

    Args:
        files: those of the checkpoint, in `root`.
        checksums: whether to read the data, which verifies their checksums, or to compare sizes only.

    Raises:
        checkpoint_errors.CannotReadCheckpoint, OSError: the operating system does not let us read it now.
    """
    prefix = os.path.join(root, name)
    stats = [os.stat(os.path.join(root, each)) for each in files]
    is_v1 = name in files
    empty = Checkpoint(
        name,
        file_names.step_of(name),
        'V1' if is_v1 else 'V2',
        sum(each.st_size for each in stats),
        max((each.st_mtime for each in stats), default=0.0),
        '',
        CHECKSUMS if checksums else SIZES,
    )
    if not is_v1 and f'{name}.index' not in files:
        return empty._replace(form='', damage=NO_INDEX)
    try:
        every = _variables_of_v1(prefix) if is_v1 else variables.read(prefix)
    except (ValueError, IndexError, TypeError, DecodeError) as error:
        return empty._replace(damage=f'{"it" if is_v1 else f"{name}.index"} cannot be read: {error}')
    damage, step, settings = (_damage_v1 if is_v1 else _damage_v2)(prefix, checksums), empty.step, {}
    if not damage:
        try:
            step, settings = _values(prefix, every)
        except checkpoint_errors.UNREADABLE as error:  # sizes alone did not find it
            damage = str(error).splitlines()[0]
    is_tree = any(variable.key for variable in every)
    return empty._replace(step=step, damage=damage, of_objects=is_tree, variables=tuple(every), settings=settings)


def _variables_of_v1(path: str) -> list[Variable]:
    every = []
    for tensor in v1_checkpoints.meta(path):
        shape = tuple(dim.size for dim in tensor.shape.dim)
        size = variables.size(tensor.type, shape)
        every.append(Variable(tensor.name, variables.dtype_name(tensor.type), shape, size, max(1, len(tensor.slice))))
    if not every:
        raise ValueError('it names no tensors')
    return sorted(every)


def _damage_v2(prefix: str, checksums: bool) -> str:
    if checksums:
        damage = checkpoints.damage(prefix) or ''
        return '' if damage == checkpoints.NO_STEP else damage  # a checkpoint of weights alone is whole
    return bundle.missing_data(prefix, bundle.read(prefix)) or ''


def _damage_v1(path: str, checksums: bool) -> str:
    return v1_checkpoints.damage(path) if checksums else ''


def _values(prefix: str, every: list[Variable]) -> tuple[int | None, dict[str, float]]:
    """The step, and the optimizer's settings that are single numbers."""
    reader = tf.train.load_checkpoint(prefix)
    step, settings = file_names.step_of(os.path.basename(prefix)), {}
    for each in roles.roles(every):
        key = each.variable.key or each.variable.name
        if each.role == roles.STEP:
            step = int(reader.get_tensor(key))
        elif each.role in (roles.SETTING, roles.SCALE) and not each.variable.shape:
            settings[each.variable.name] = float(reader.get_tensor(key))
    return step, settings
