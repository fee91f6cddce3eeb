"""Reads the index of a checkpoint of format V2: which tensors it has, in which slices, and in which file each one lies.

`CheckpointReader` gives the whole shape of a partitioned variable and says nothing of its slices. The slot of a slice
(`weights/part_0/Ftrl`) has the shape of the whole there as well, although only the slice is stored. Imports no
TensorFlow.
"""

import contextlib
import os
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO, NamedTuple

from google.protobuf.message import DecodeError

from estimator_trainer.run_dir import sstable
from estimator_trainer.run_dir.protos import FIXED32, INT32, INT64, MANY, ONE, classes

# tensorflow/core/protobuf/tensor_bundle.proto describes the messages.
_CLASSES = classes(
    'estimator_trainer.bundle',
    {
        'Dim': [('size', 1, INT64, ONE)],
        'Shape': [('dim', 2, 'Dim', MANY)],
        'Extent': [('start', 1, INT64, ONE), ('length', 2, INT64, ONE)],  # `length` may be there or not
        'Slice': [('extent', 1, 'Extent', MANY)],
        'BundleHeader': [('num_shards', 1, INT32, ONE)],
        'BundleEntry': [
            ('dtype', 1, INT32, ONE),  # a number of the enumeration DataType
            ('shape', 2, 'Shape', ONE),
            ('shard_id', 3, INT32, ONE),
            ('offset', 4, INT64, ONE),
            ('size', 5, INT64, ONE),
            ('crc32c', 6, FIXED32, ONE),  # masked, of the bytes
            ('slices', 7, 'Slice', MANY),
        ],
    },
)
BundleHeader, BundleEntry = _CLASSES['BundleHeader'], _CLASSES['BundleEntry']
_HEADER = b''
_NOT_NUMBERS = (7, 20, 21)  # DT_STRING, DT_RESOURCE, DT_VARIANT
_SLICE = b'\x00'  # begins the key of a slice; names of tensors do not begin so


class Bundle(NamedTuple):
    """What an index says.

    Attributes:
        shards: number of data files.
        tensors: name -> BundleEntry.
        slices: the BundleEntry of each slice that is stored by itself.
    """

    shards: int
    tensors: dict[str, Any]
    slices: tuple[Any, ...]


def read(prefix: str) -> Bundle:
    """Reads the index of a checkpoint.

    Raises:
        ValueError: the index is damaged.
        OSError: it cannot be read.
    """
    header, tensors, slices = BundleHeader(), {}, []
    try:
        for key, value in sstable.entries(f'{prefix}.index'):
            if key == _HEADER:
                header = BundleHeader.FromString(value)
            elif key.startswith(_SLICE):
                slices.append(BundleEntry.FromString(value))
            else:
                tensors[key.decode()] = BundleEntry.FromString(value)
    except DecodeError as error:
        raise ValueError(f'it does not describe tensors ({error})') from error
    return Bundle(max(1, header.num_shards), tensors, tuple(slices))


def shard_paths(prefix: str, shards: int) -> list[str]:
    return [f'{prefix}.data-{number:05}-of-{shards:05}' for number in range(shards)]


def missing_data(prefix: str, bundle: Bundle) -> str | None:
    """Which data file is missing or cut short, in one line; None if all are there in full.

    Raises:
        OSError: a file cannot be looked at.
    """
    needed = [0] * bundle.shards
    for entry in (*bundle.tensors.values(), *bundle.slices):
        if entry.shard_id >= bundle.shards:
            return f'its index names data file {entry.shard_id}, and there are {bundle.shards}'
        needed[entry.shard_id] = max(needed[entry.shard_id], entry.offset + entry.size)
    for path, least in zip(shard_paths(prefix, bundle.shards), needed):
        try:
            size = os.stat(path).st_size
        except FileNotFoundError:
            return f'{os.path.basename(path)} is missing'
        if size < least:
            return f'{os.path.basename(path)} has {size:,} bytes of {least:,}: it was cut short'
    return None


def wrong_checksum(prefix: str, bundle: Bundle) -> bool:
    """Whether the data are not those that the index was written for. Strings, whose checksums are made in another way,
    are not looked at.

    Raises:
        OSError: a data file cannot be read.
    """
    paths = shard_paths(prefix, bundle.shards)
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(open(path, 'rb')) for path in paths]
        for entry in (*bundle.tensors.values(), *bundle.slices):
            if entry.size and entry.dtype not in _NOT_NUMBERS:
                files[entry.shard_id].seek(entry.offset)
                if _masked_crc(files[entry.shard_id], entry.size) != entry.crc32c:
                    return True
    return False


def _masked_crc(file: BinaryIO, size: int) -> int:
    import google_crc32c  # not where the readers are only imported

    crc = 0
    while size:
        chunk = file.read(min(size, 1 << 20))
        if not chunk:
            return -1
        crc = google_crc32c.extend(crc, chunk)
        size -= len(chunk)
    return sstable.masked(crc)


def slice_specs(entry: Any) -> list[str]:
    """What RestoreV2 takes as `shape_and_slices` to read a tensor as it is stored: [''] if it is whole, otherwise one
    text for each slice, such as '1000 8 0,500:-'."""
    return specs(entry.shape.dim, entry.slices)


def specs(dims: Iterable[Any], slices: Sequence[Any]) -> list[str]:
    """What RestoreV2 takes as `shape_and_slices` for a tensor of any format; `slices`: none if it is whole."""
    if not slices:
        return ['']
    shape = ' '.join(str(dim.size) for dim in dims)
    return [f'{shape} {":".join(map(_extent, part.extent))}' for part in slices]


def slice_shapes(entry: Any) -> list[list[int]]:
    """The shapes of the slices of a tensor."""
    return [
        [extent.length if extent.HasField('length') else dim.size for extent, dim in zip(part.extent, entry.shape.dim)]
        for part in entry.slices
    ]


def _extent(extent: Any) -> str:
    return f'{extent.start},{extent.length}' if extent.HasField('length') else '-'
