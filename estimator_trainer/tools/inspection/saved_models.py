"""Reads a SavedModel as a protocol buffer: signatures, the tf.Examples that it parses, damage."""

import os
from typing import Any

import tensorflow as tf
from google.protobuf import text_format
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2

from estimator_trainer.run_dir import file_names
from estimator_trainer.tools.inspection import checkpoint, graph
from estimator_trainer.tools.inspection.facts import Export, Signature, Tensor
from estimator_trainer.tools.predict.signature import parsed_features

_VARIABLES = 'variables/variables'
_HOLDERS = ('VarHandleOp', 'VariableV2', 'Variable', 'VarIsInitializedOp')
_INIT = '__saved_model_init_op'


def read(root: str, relative: str, checksums: bool) -> Export:
    """Reads the SavedModel in a folder below `root`, as far as it can be read.

    Raises:
        OSError, checkpoint_errors.CannotReadCheckpoint: the operating system does not let us read it now.
    """
    path = os.path.normpath(os.path.join(root, relative))
    files = (os.path.join(at, name) for at, _, names in os.walk(path) for name in names)
    size = sum(os.path.getsize(each) for each in files if os.path.isfile(each))
    nothing = Export(relative, '', (), (), {}, size, (), frozenset(), {}, (), False, '')
    try:
        metas = _parse(path).meta_graphs
    except (DecodeError, text_format.ParseError, UnicodeDecodeError, RecursionError) as error:
        return nothing._replace(damage=f'its saved_model file cannot be parsed ({graph.brief(error)})')
    if not metas:
        return nothing._replace(damage='its saved_model file holds no graph: it was cut short')
    meta = next((each for each in metas if 'serve' in each.meta_info_def.tags), metas[0])
    try:
        return _described(nothing, path, meta, checksums)
    except graph.NONSENSE as error:
        return nothing._replace(damage=f'its saved_model file was changed ({graph.brief(error)})')


def _described(nothing: Export, path: str, meta: Any, checksums: bool) -> Export:
    inside = graph.of_meta(meta, 'saved_model.pb')
    damage, variables = _variables(path, meta, checksums)
    variables = variables or list(inside.variables)
    missing = [each.filename for each in meta.asset_file_def if not os.path.isfile(f'{path}/assets/{each.filename}')]
    if missing and not damage:
        damage = f'assets/{missing[0]} is missing'
    signatures = [_signature(name, each) for name, each in sorted(meta.signature_def.items()) if name != _INIT]
    return nothing._replace(
        version=inside.version,
        tags=tuple(meta.meta_info_def.tags),
        signatures=tuple(signatures),
        features={name: _words(feature) for name, feature in sorted(_features(meta.graph_def).items())},
        variables=tuple(variables),
        head=inside.head,
        columns=inside.columns,
        unknown=inside.unknown,
        of_objects=bool(meta.object_graph_def.nodes),
        damage=damage,
    )


def _parse(path: str) -> saved_model_pb2.SavedModel:
    for name in file_names.SAVED_MODEL:
        full = os.path.join(path, name)
        if os.path.isfile(full):
            with open(full, 'rb') as file:
                content = file.read()
            if name.endswith('.pb'):
                return saved_model_pb2.SavedModel.FromString(content)
            return text_format.Parse(content.decode(), saved_model_pb2.SavedModel(), allow_unknown_field=True)
    raise FileNotFoundError(2, 'it has no saved_model.pb', path)


def _variables(path: str, meta: Any, checksums: bool) -> tuple[str, list]:
    index = os.path.join(path, f'{_VARIABLES}.index')
    if not os.path.isfile(index):
        needs_them = any(node.op in _HOLDERS for node in meta.graph_def.node)
        return ('its variables are missing: there is no variables/variables.index' if needs_them else '', [])
    inside, name = os.path.split(os.path.join(path, _VARIABLES))
    files = [each for each in sorted(os.listdir(inside)) if each.startswith(f'{name}.')]
    saved = checkpoint.read(inside, name, files, checksums)
    return saved.damage, list(saved.variables)


def _signature(name: str, definition: Any) -> Signature:
    inputs = [_tensor(key, info) for key, info in sorted(definition.inputs.items())]
    outputs = [_tensor(key, info) for key, info in sorted(definition.outputs.items())]
    return Signature(name, definition.method_name.removeprefix('tensorflow/serving/'), tuple(inputs), tuple(outputs))


def _tensor(name: str, info: Any) -> Tensor:
    dtype = tf.as_dtype(info.dtype).name if info.dtype else 'unknown'
    kind = info.WhichOneof('encoding')
    if kind in ('coo_sparse', 'composite_tensor'):
        dtype = f'{"sparse" if kind == "coo_sparse" else "composite"} {dtype}'
    shape = info.tensor_shape
    sizes = None if shape.unknown_rank else tuple(dim.size if dim.size >= 0 else None for dim in shape.dim)
    return Tensor(name, dtype, sizes)


def _features(definition: Any) -> dict:
    try:
        return parsed_features(definition)
    except (ValueError, TypeError, IndexError, KeyError, AttributeError):  # a form that is not known here
        return {}


def _words(feature: Any) -> str:
    dtype = tf.as_dtype(feature.dtype).name
    if isinstance(feature, tf.io.VarLenFeature):
        return f'{dtype}, any number of values'
    shape = ', '.join(map(str, feature.shape))
    return f'{dtype} [{shape}]' + ('' if feature.default_value is None else ', may be missing')
