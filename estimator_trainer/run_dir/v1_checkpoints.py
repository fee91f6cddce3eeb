"""Checkpoints of format V1, which TensorFlow 1 wrote before 1.0, and which a Saver still writes if it is told to.

Such a checkpoint is one file, `model.ckpt-10`, or one for each shard, `model.ckpt-10-00000-of-00002`. TensorFlow reads
both formats. All else here knows V2 only, so that the trainer writes what it goes on from once more, in format V2.
"""

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.util import saved_tensor_slice_pb2

from estimator_trainer.compat.patches import eager_context
from estimator_trainer.run_dir import bundle, checkpoint_errors, file_names, sstable

_META = b''
_SHARD = re.compile(r'-of-(\d{5})$')


def among(names: Iterable[str]) -> set[str]:
    """The checkpoints of format V1 among the files of a model_dir, by their names."""
    return {match[1] for match in map(file_names.V1.fullmatch, names) if match}


def files(prefix: str) -> list[str]:
    """The paths of the files of a checkpoint, without its graph; [] if there is none of format V1.

    Raises:
        CannotReadCheckpoint: the folder cannot be read now.
    """
    folder, name = os.path.split(prefix)
    its = re.compile(re.escape(name) + r'(?:-\d{5}-of-\d{5})?')
    return [os.path.join(folder, each) for each in sorted(checkpoint_errors.names(folder)) if its.fullmatch(each)]


def meta(path: str) -> Iterator[saved_tensor_slice_pb2.SavedSliceMeta]:
    """What the tensors in a file are.

    Raises:
        ValueError: the file is damaged.
        OSError: it cannot be read.
    """
    for key, value in sstable.entries(path):
        if key != _META:
            return
        try:
            yield from saved_tensor_slice_pb2.SavedTensorSlices.FromString(value).meta.tensor
        except DecodeError as error:
            raise ValueError(f'it does not describe tensors ({error})') from error


def damage(prefix: str) -> str:
    """What is wrong with the files of a checkpoint, in one line; '' if nothing is. Reads all of them.

    Raises:
        OSError: one cannot be read.
    """
    paths = files(prefix)
    try:
        for path in paths:
            for _ in sstable.entries(path):  # which verifies the checksum of each block
                pass
    except ValueError as error:
        return str(error)
    shards = _SHARD.search(paths[0])
    return f'{len(paths)} of its {int(shards[1])} files are there' if shards and len(paths) != int(shards[1]) else ''


def pattern(prefix: str) -> str:
    """How TensorFlow is told to read a checkpoint: by the name of its file, or by a pattern for those of its shards."""
    shards = _SHARD.search(files(prefix)[0])
    return f'{prefix}-?????-of-{shards[1]}' if shards else prefix


def write_as_v2(prefix: str) -> str | None:
    """Writes a checkpoint of format V1 once more, in format V2 and with the same prefix. Its own files stay.

    What is wrong with its contents, in one line; None: it is written.

    Raises:
        CannotReadCheckpoint: the operating system does not let us read it now.
        tf.errors.OpError: it cannot be written.
    """
    try:
        problem = damage(prefix)
        if problem:
            return problem
        names, specs, dtypes = _tensors(files(prefix))
    except ValueError as error:
        return str(error)
    except OSError as error:
        raise checkpoint_errors.CannotReadCheckpoint.because(error, error.filename or prefix) from error
    with eager_context.at_once(), tf.device('CPU:0'):  # a job may have turned eager execution off
        try:
            tensors = tf.raw_ops.RestoreV2(
                prefix=pattern(prefix), tensor_names=names, shape_and_slices=specs, dtypes=dtypes
            )
        except checkpoint_errors.UNREADABLE as error:
            checkpoint_errors.raise_if_refused(error, prefix)
            if isinstance(error, tf.errors.ResourceExhaustedError):  # of memory: that says nothing of the contents
                raise
            return checkpoint_errors.one_line(error)
        tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=specs, tensors=tensors)
    return None


def _tensors(paths: Iterable[str]) -> tuple[list[str], list[str], list[tf.DType]]:
    """The name, the slice and the type of each tensor, as RestoreV2 and SaveV2 take them."""
    tensors = [
        (tensor.name, spec, tf.as_dtype(tensor.type))
        for path in paths
        for tensor in meta(path)
        for spec in bundle.specs(tensor.shape.dim, [part for part in tensor.slice if _is_part(part)])
    ]
    if not tensors:
        raise ValueError('it names no tensors')
    names, specs, dtypes = zip(*sorted(set(tensors), key=lambda each: each[:2]))
    return list(names), list(specs), list(dtypes)


def _is_part(part: Any) -> bool:
    """Whether a slice is less than the whole tensor."""
    return any(extent.HasField('length') for extent in part.extent)
