"""Reads one checkpoint: its variables, its step, and whether it is whole."""

import os

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import trackable_object_graph_pb2

from estimator_trainer.run_dir import bundle, checkpoint_errors, checkpoints, v1_checkpoints
from estimator_trainer.tools.inspection import folder, roles
from estimator_trainer.tools.inspection.facts import Checkpoint, Variable

CHECKSUMS, SIZES = 'checksums', 'sizes'
NO_INDEX = 'its index is missing'
_OBJECT_GRAPH = '_CHECKPOINTABLE_OBJECT_GRAPH'
_ATTRIBUTE = '/.ATTRIBUTES/VARIABLE_VALUE'


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
    size = sum(each.st_size for each in stats)
    time = max((each.st_mtime for each in stats), default=0.0)
    checked = CHECKSUMS if checksums else SIZES
    old = name in files
    if not old and f'{name}.index' not in files:
        return Checkpoint(name, _named_step(name), '', size, time, NO_INDEX, checked)
    try:
        variables, of_objects = (_of_v1(prefix), False) if old else _of_v2(prefix)
    except (ValueError, IndexError, TypeError, DecodeError) as error:
        what = 'it' if old else f'{name}.index'
        return Checkpoint(
            name, _named_step(name), 'V1' if old else 'V2', size, time, f'{what} cannot be read: {error}', checked
        )
    except tf.errors.OpError as error:
        return Checkpoint(name, _named_step(name), 'V2', size, time, error.message.splitlines()[0], checked)
    damage = (_damage_v1 if old else _damage_v2)(prefix, checksums)
    step, settings = _named_step(name), {}
    if not damage:
        try:
            step, settings = _values(prefix, variables)
        except checkpoint_errors.UNREADABLE as error:  # sizes alone did not find it
            damage = str(error).splitlines()[0]
    return Checkpoint(
        name, step, 'V1' if old else 'V2', size, time, damage, checked, of_objects, tuple(variables), settings
    )


def _named_step(name: str) -> int | None:
    step = folder.step_in(name)
    return step if step >= 0 else None


def _of_v2(prefix: str) -> tuple[list[Variable], bool]:
    index = bundle.read(prefix)
    names = _object_names(prefix) if _OBJECT_GRAPH in index.tensors else {}
    variables = []
    for key, entry in sorted(index.tensors.items()):
        if key == _OBJECT_GRAPH:
            continue
        variables.append(
            Variable(
                names.get(key) or key.removesuffix(_ATTRIBUTE),
                tf.as_dtype(entry.dtype).name,
                tuple(dim.size for dim in entry.shape.dim),
                sum(_bytes(entry.dtype, sizes) for sizes in bundle.slice_shapes(entry)) if entry.slices else entry.size,
                max(1, len(entry.slices)),
                key if _OBJECT_GRAPH in index.tensors else '',
            )
        )
    return variables, _OBJECT_GRAPH in index.tensors


def _object_names(prefix: str) -> dict[str, str]:
    """Key -> name of the variable, for a checkpoint of objects whose data can be read."""
    try:
        serialized = tf.train.load_checkpoint(prefix).get_tensor(_OBJECT_GRAPH)
    except checkpoint_errors.UNREADABLE:
        return {}
    graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(serialized)
    return {
        attribute.checkpoint_key: attribute.full_name
        for node in graph.nodes
        for attribute in node.attributes
        if attribute.full_name
    }


def _of_v1(path: str) -> list[Variable]:
    found = []
    for tensor in v1_checkpoints.meta(path):
        shape = tuple(dim.size for dim in tensor.shape.dim)
        dtype = tf.as_dtype(tensor.type)
        found.append(Variable(tensor.name, dtype.name, shape, _bytes(tensor.type, shape), max(1, len(tensor.slice))))
    if not found:
        raise ValueError('it names no tensors')
    return sorted(found)


def _bytes(dtype, sizes) -> int:
    count = 1
    for size in sizes:
        count *= size
    return count * (tf.as_dtype(dtype).size if dtype != tf.string.as_datatype_enum else 0)


def _damage_v2(prefix: str, checksums: bool) -> str:
    if checksums:
        found = checkpoints.damage(prefix) or ''
        return '' if found == checkpoints.NO_STEP else found  # a checkpoint of weights alone is whole
    return bundle.missing_data(prefix, bundle.read(prefix)) or ''


def _damage_v1(path: str, checksums: bool) -> str:
    return v1_checkpoints.damage(path) if checksums else ''


def _values(prefix: str, variables: list[Variable]) -> tuple[int | None, dict[str, float]]:
    """The step, and the optimizer's settings that are single numbers."""
    reader = tf.train.load_checkpoint(prefix)
    step, settings = None, {}
    for each in roles.roles(variables):
        key = each.variable.key or each.variable.name
        if each.role == roles.STEP:
            step = int(reader.get_tensor(key))
        elif each.role in (roles.SETTING, roles.SCALE) and not each.variable.shape:
            settings[each.variable.name] = float(reader.get_tensor(key))
    return (_named_step(os.path.basename(prefix)) if step is None else step), settings
