"""Reads one checkpoint, or one SavedModel as a protocol buffer, as far as it can be read; and whether it is whole."""

import os
from typing import Any, NamedTuple

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2

from estimator_trainer.run_dir import bundle, checkpoint_errors, checkpoints, file_names, v1_checkpoints
from estimator_trainer.tools.inspection import graph, roles, variables
from estimator_trainer.tools.inspection.variables import Variable
from estimator_trainer.tools.predict.signature import parsed_features

CHECKSUMS, SIZES = 'checksums', 'sizes'
NO_INDEX = 'its index is missing'
_LARGEST_MODEL = 2 << 30  # that a protocol buffer may have
_HOLDERS = ('VarHandleOp', 'VariableV2', 'Variable', 'VarIsInitializedOp')
_INIT = '__saved_model_init_op'


class Checkpoint(NamedTuple):
    """A checkpoint and its state.

    Attributes:
        form: 'V2', 'V1' (before TensorFlow 1.0) or '' if that cannot be told.
        time: of the last change of a file, in seconds since the epoch.
        checked: what the absence of damage rests on: CHECKSUMS or SIZES.
        damage: what is wrong, or ''.
        of_objects: tf.train.Checkpoint has written it, and no Saver.
        settings: name -> value, of the optimizer's settings that are variables.
    """

    name: str
    step: int | None
    form: str
    bytes: int
    time: float
    checked: str
    damage: str = ''
    of_objects: bool = False
    variables: tuple[Variable, ...] = ()
    settings: dict[str, float] = {}


class Signature(NamedTuple):
    """What a SavedModel computes.

    Attributes:
        inputs, outputs: name -> type and shape, such as 'float32 [?, 1]'.
        not_from_files: an input that `predict` cannot give it, or ''.
    """

    name: str
    method: str
    inputs: dict[str, str]
    outputs: dict[str, str]
    not_from_files: str = ''


class Export(NamedTuple):
    """A SavedModel.

    Attributes:
        path: relative to the folder that is inspected; '.' is that folder itself.
        version: of the TensorFlow that has written it, or ''.
        features: of the tf.Examples that it parses: name -> kind in words.
        head, deep_columns, unknown: as a Graph has them.
        of_objects: tf.saved_model.save has written it, as Keras does.
        damage: what is wrong, or ''.
    """

    path: str
    bytes: int
    damage: str = ''
    version: str = ''
    tags: tuple[str, ...] = ()
    signatures: tuple[Signature, ...] = ()
    features: dict[str, str] = {}
    variables: tuple[Variable, ...] = ()
    head: frozenset[str] = frozenset()
    deep_columns: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    of_objects: bool = False


def read_checkpoint(folder: str, name: str, files: list[str], checksums: bool) -> Checkpoint:
    """Reads a checkpoint.

    Args:
        files: those of the checkpoint, in the folder.
        checksums: whether to read the data, which verifies their checksums, or to compare sizes only.

    Raises:
        checkpoint_errors.CannotReadCheckpoint, OSError: the operating system does not let us read it now.
    """
    prefix = os.path.join(folder, name)
    stats = [os.stat(os.path.join(folder, each)) for each in files]
    size, time = sum(each.st_size for each in stats), max((each.st_mtime for each in stats), default=0.0)
    is_v1, checked = not all(map(file_names.checkpoint_of, files)), CHECKSUMS if checksums else SIZES
    saved = Checkpoint(name, file_names.step_of(name), 'V1' if is_v1 else 'V2', size, time, checked)
    if not is_v1 and f'{name}.index' not in files:
        return saved._replace(form='', damage=NO_INDEX)
    every: list[Variable] = []
    try:
        if is_v1:
            damage = v1_checkpoints.damage(prefix) if checksums else ''
            prefix = v1_checkpoints.pattern(prefix)
        else:
            every = variables.read(prefix)
            damage = checkpoints.damage(prefix) if checksums else bundle.missing_data(prefix, bundle.read(prefix))
    except (ValueError, IndexError, TypeError, DecodeError) as error:
        return saved._replace(damage=f'{name}.index cannot be read: {error}')
    of_objects = any(variable.key for variable in every)
    saved = saved._replace(of_objects=of_objects, variables=tuple(every))
    if damage and damage != checkpoints.NO_STEP:  # a checkpoint of weights alone is whole
        return saved._replace(damage=damage)
    try:
        return _with_values(saved, tf.train.load_checkpoint(prefix))
    except checkpoint_errors.UNREADABLE as error:  # sizes alone did not find it
        return saved._replace(damage=checkpoint_errors.one_line(error))


def _with_values(saved: Checkpoint, reader: Any) -> Checkpoint:
    """A checkpoint with its step, the optimizer's settings that are single numbers, and the variables of format V1."""
    if saved.form == 'V1':
        dtypes = {name: dtype.base_dtype for name, dtype in reader.get_variable_to_dtype_map().items()}
        every = (
            Variable(name, dtypes[name].name, tuple(shape), variables.size(dtypes[name].as_datatype_enum, shape))
            for name, shape in sorted(reader.get_variable_to_shape_map().items())
        )
        saved = saved._replace(variables=tuple(every))
    step, settings = saved.step, {}
    for each in roles.roles(saved.variables):
        key = each.variable.key or each.variable.name
        if each.role == roles.STEP:
            step = int(reader.get_tensor(key))
        elif each.role in (roles.SETTING, roles.SCALE) and not each.variable.shape:
            settings[each.variable.name] = float(reader.get_tensor(key))
    return saved._replace(step=step, settings=settings)


def read_saved_model(root: str, relative: str, checksums: bool) -> Export:
    """Reads the SavedModel in a folder below `root`.

    Raises:
        OSError, checkpoint_errors.CannotReadCheckpoint: the operating system does not let us read it now.
    """
    path = os.path.normpath(os.path.join(root, relative))
    files = (os.path.join(at, name) for at, _, names in os.walk(path) for name in names)
    export = Export(relative, sum(os.path.getsize(each) for each in files if os.path.isfile(each)))
    name = min(set(file_names.SAVED_MODEL) & set(os.listdir(path)), default=file_names.SAVED_MODEL[0])
    try:
        metas = graph.parsed(os.path.join(path, name), saved_model_pb2.SavedModel(), _LARGEST_MODEL).meta_graphs
        if not metas:
            raise ValueError('it holds no graph: it was cut short')
        meta = next((each for each in metas if 'serve' in each.meta_info_def.tags), metas[0])
        with graph.changed_bytes():
            return _described(export, path, meta, checksums)
    except ValueError as error:
        return export._replace(damage=f'its {name}: {error}')


def _described(export: Export, path: str, meta: Any, checksums: bool) -> Export:
    inside = graph.of_meta(meta, file_names.SAVED_MODEL[0])
    folder, damage, every = os.path.join(path, 'variables'), '', ()
    if os.path.isfile(os.path.join(folder, 'variables.index')):
        files = [each for each in sorted(os.listdir(folder)) if each.startswith('variables.')]
        saved = read_checkpoint(folder, 'variables', files, checksums)
        damage, every = saved.damage, saved.variables
    elif any(node.op in _HOLDERS for node in meta.graph_def.node):
        damage = 'its variables are missing: there is no variables/variables.index'
    missing = [each.filename for each in meta.asset_file_def if not os.path.isfile(f'{path}/assets/{each.filename}')]
    if missing and not damage:
        damage = f'assets/{missing[0]} is missing'
    signatures = [_signature(name, each) for name, each in sorted(meta.signature_def.items()) if name != _INIT]
    return export._replace(
        damage=damage,
        version=inside.version,
        tags=tuple(meta.meta_info_def.tags),
        signatures=tuple(signatures),
        features=_features(meta.graph_def),
        variables=every,
        head=inside.head,
        deep_columns=inside.deep_columns,
        unknown=inside.unknown,
        of_objects=bool(meta.object_graph_def.nodes),
    )


def _signature(name: str, definition: Any) -> Signature:
    inputs, outputs = (
        {key: _in_words(info) for key, info in sorted(each.items())} for each in (definition.inputs, definition.outputs)
    )
    method = definition.method_name.removeprefix('tensorflow/serving/')
    not_from_files = next((key for key, info in sorted(definition.inputs.items()) if not _has_rows(info)), '')
    return Signature(name, method, inputs, outputs, not_from_files)


def _has_rows(info: Any) -> bool:
    """Whether an input is a batch of tensors, each of one fixed shape."""
    shape = tf.TensorShape(info.tensor_shape)
    return info.WhichOneof('encoding') == 'name' and bool(shape.rank) and shape[1:].is_fully_defined()


def _in_words(info: Any) -> str:
    dtype = tf.as_dtype(info.dtype).name if info.dtype else 'unknown'
    kind = {'coo_sparse': 'sparse ', 'composite_tensor': 'composite '}.get(info.WhichOneof('encoding'), '')
    shape = tf.TensorShape(info.tensor_shape)
    sizes = 'any shape' if shape.rank is None else ', '.join('?' if size is None else f'{size}' for size in shape)
    return f'{kind}{dtype} [{sizes}]'


def _features(definition: Any) -> dict[str, str]:
    """The features of the tf.Examples that a graph parses, in words."""
    try:
        features = parsed_features(definition)
    except (ValueError, TypeError, IndexError, KeyError, AttributeError):  # a form that is not known here
        return {}
    words = {}
    for name, feature in sorted(features.items()):
        dtype = tf.as_dtype(feature.dtype).name
        if isinstance(feature, tf.io.VarLenFeature):
            words[name] = f'{dtype}, any number of values'
        else:
            may_be_missing = '' if feature.default_value is None else ', may be missing'
            words[name] = f'{dtype} [{", ".join(map(str, feature.shape))}]{may_be_missing}'
    return words
