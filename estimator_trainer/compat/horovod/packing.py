"""What ranks do with arrays: reduce, gather and broadcast many of them in one exchange. NumPy only.

A transport is a SharedMemory or a SocketMesh. A text names what is exchanged: each rank gives the same one, and the
exchanges of one text follow each other in the same order in every rank.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

_ALIGNMENT = 64  # bytes; TensorFlow takes over arrays that begin so without a copy

AVERAGE, SUM, MIN, MAX, PRODUCT = 'Average', 'Sum', 'Min', 'Max', 'Product'
_FUNCTIONS = {AVERAGE: np.add, SUM: np.add, MIN: np.minimum, MAX: np.maximum, PRODUCT: np.multiply}

_kept: dict = {}  # {(text, type): where the arrays were packed last}: new memory costs more than the copy


def reduced(transport: Any, text: str, arrays: Sequence[np.ndarray], operation: str) -> list:
    """The arrays, each reduced over all ranks. Those of one type travel together.

    Args:
        arrays: of the same shapes and types in every rank.
        operation: one of the names above. An average of integers is cut off.
    """
    results: list = [None] * len(arrays)
    for kind in sorted({array.dtype.str for array in arrays}):
        chosen = [index for index, array in enumerate(arrays) if array.dtype.str == kind]
        starts, packed = _packed([arrays[index] for index in chosen], _kept.pop((text, kind), None))
        total = transport.add_up(_key(f'{text}/{kind}'), packed, function=_FUNCTIONS[operation])
        if len(chosen) > 1:
            _kept[text, kind] = packed
        if operation == AVERAGE:
            total = divided(total, transport.size)
        for index, start in zip(chosen, starts):
            results[index] = total[start : start + arrays[index].size].reshape(arrays[index].shape)
    return results


def gathered(transport: Any, text: str, arrays: Sequence[np.ndarray]) -> list:
    """Each array with the rows of all ranks, in the order of the ranks.

    Args:
        arrays: of the same types, and of the same shapes but for the first dimension, in every rank.
    """
    rows = np.array([len(array) for array in arrays], np.int64)
    blocks = [rows, *arrays]
    given = np.concatenate([np.ascontiguousarray(block).reshape(-1).view(np.uint8) for block in blocks])
    rows_of_all: list = [[] for _ in arrays]
    for part in transport.parts(_key(text), given):
        theirs, end = part[: rows.nbytes].copy().view(np.int64), rows.nbytes
        for blocks, array, count in zip(rows_of_all, arrays, theirs):
            start, end = end, end + int(count) * array[:0].dtype.itemsize * int(np.prod(array.shape[1:]))
            blocks.append(part[start:end].copy().view(array.dtype).reshape((-1, *array.shape[1:])))
        if end != part.nbytes:
            raise ValueError(f'{text}: the ranks give rows of different shapes: {[a.shape[1:] for a in arrays]} here')
    return [np.concatenate(blocks) for blocks in rows_of_all]


def broadcast(transport: Any, text: str, arrays: Sequence[np.ndarray], root: int, rank: int) -> list:
    """The arrays of rank `root`; each rank gives arrays of the same shapes and types."""
    given = [np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in arrays if rank == root]
    flat = np.concatenate(given) if given else np.empty(0, np.uint8)
    for number, part in enumerate(transport.parts(_key(text), flat)):
        if number == root:
            flat = part.copy()
    if flat.nbytes != sum(array.nbytes for array in arrays):
        raise ValueError(f'{text}: rank {root} has arrays of other sizes than rank {rank}')
    ends = np.cumsum([array.nbytes for array in arrays])
    return [
        flat[end - array.nbytes : end].copy().view(array.dtype).reshape(array.shape) for array, end in zip(arrays, ends)
    ]


def _packed(arrays: Sequence[np.ndarray], kept: np.ndarray | None = None) -> tuple[list[int], np.ndarray]:
    """(where each array begins, one flat array of all), so that each is aligned. `kept` is used again if it fits."""
    if len(arrays) == 1:
        return [0], arrays[0].reshape(-1)
    starts, end = [], 0
    for array in arrays:
        starts.append(end)
        each = max(1, _ALIGNMENT // array.itemsize)
        end += -(-array.size // each) * each
    packed = kept if kept is not None and kept.size == end else np.zeros(end, arrays[0].dtype)
    for array, start in zip(arrays, starts):
        packed[start : start + array.size] = array.reshape(-1)
    return starts, packed


def divided(total: np.ndarray, size: int) -> np.ndarray:
    """The average of `size` ranks, in place of their sum. Of integers it is cut off."""
    if total.dtype.kind in 'iu':
        return np.trunc(total / size).astype(total.dtype)
    return np.divide(total, np.asarray(size, total.dtype), out=total)


def _key(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), 'big')
