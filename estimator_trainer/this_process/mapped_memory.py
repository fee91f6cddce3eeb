"""Memory that tasks share, as arrays of NumPy: where in it an array lies, and its mapping."""

import mmap

import numpy as np

ALIGNMENT = 64  # TensorFlow takes over arrays that begin so without a copy
_FIRST_PIECE = 16 * 2**20  # of memory that is mapped at once; most models need few of them


class Mapping:
    """The memory of a task, which grows. A mapping holds a descriptor, so there is none for each array but a few large
    ones."""

    def __init__(self, descriptor: int, access: int):
        self._descriptor, self._access = descriptor, access
        self._pieces: dict[int, mmap.mmap] = {}

    def like(self, array: np.ndarray, where: int) -> np.ndarray:
        """The memory there as an array of this type and shape."""
        return self.bytes(where, array.nbytes).view(array.dtype).reshape(array.shape)

    def bytes(self, where: int, size: int) -> np.ndarray:
        """The memory there."""
        start, end = piece(where)
        if size and start not in self._pieces:
            new = mmap.mmap(self._descriptor, end - start, prot=self._access, offset=start)
            self._pieces.setdefault(start, new)
        return np.frombuffer(self._pieces[start] if size else b'', np.uint8, size, where - start if size else 0)


def piece(where: int) -> tuple[int, int]:
    """Start and end of the piece that this is in. Each piece is as long as all before it."""
    end = _FIRST_PIECE
    while end <= where:
        end *= 2
    return (end // 2 if end > _FIRST_PIECE else 0), end


def room(where: int, num_bytes: int) -> int:
    """The first place from there on that has so many bytes within a piece."""
    while where + num_bytes > (end := piece(where)[1]):
        where = end
    return where


def region_bytes(num_bytes: int) -> int:
    """The bytes of a region for so many: one of eight sizes between a power of two and the next one. Arrays whose sizes
    vary use the same regions again."""
    eighth = 1 << max(0, (num_bytes - 1).bit_length() - 4)
    step = max(ALIGNMENT, eighth)
    return -(-num_bytes // step) * step


def aligned(array: np.ndarray) -> np.ndarray:
    """An empty array of this shape and type that TensorFlow takes over without a copy."""
    space = np.empty(array.nbytes + ALIGNMENT, np.uint8)
    first = -space.ctypes.data % ALIGNMENT
    return space[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
