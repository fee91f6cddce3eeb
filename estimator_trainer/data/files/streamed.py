"""Reads records by their number, in blocks, from TFRecord and CSV files of a store that are larger than the cache."""

from collections.abc import Iterable, Sequence

import numpy as np

from estimator_trainer.data.files import listing
from estimator_trainer.data.files.block_cache import BlockCache
from estimator_trainer.data.files.records import IndexedFiles, part_of
from estimator_trainer.data.remote import threads
from estimator_trainer.data.remote.paths import RemotePath

_BLOCKS_AHEAD = 16  # that are loaded if records are read in their order; about a MiB each
_LEAST_BYTES = 64 * 2**20  # for the blocks in use and those that are loaded ahead


class StreamedFiles(IndexedFiles):
    """IndexedFiles for objects of a store. Its blocks begin and end between two records; see data.block_order."""

    _counts_lines = False  # the lines would have to be fetched

    def __init__(
        self,
        paths: Sequence[RemotePath],
        file_format: str,
        starts: Sequence[np.ndarray],
        most_bytes: int,
        stamps: Sequence[listing.Stamp],
    ) -> None:
        self._objects = paths
        super().__init__(paths, file_format, starts, most_bytes, stamps)
        self.enters_anywhere = False
        self._first_blocks = np.searchsorted(self._file_of_block, np.arange(len(paths) + 1))
        self._edges = [self._edges_of(file) for file in range(len(paths))]
        self._begins = np.concatenate([edges[:-1] for edges in self._edges])
        self._blocks: BlockCache[bytes] = BlockCache(
            self._load, self.block_bytes, max(most_bytes, _LEAST_BYTES), threads.submit
        )

    def load_ahead(self, blocks: Iterable[int], beside: Iterable[int] = ()) -> None:
        """See Store.load_ahead."""
        self._blocks.load_ahead(blocks, beside)

    def _is_compressed(self, file: int) -> bool:
        """Whether a file is compressed, without reading it: if it is not, its last record ends where the file ends."""
        return int(self._starts[file][-1]) != self._objects[file].size

    def _edges_of(self, file: int) -> np.ndarray:
        """The decompressed byte at which each block of a file begins, and the end of the last: int64 [blocks + 1]."""
        starts, of_file = self._starts[file], slice(*self._first_blocks[file : file + 2])
        first = 0 if self._compressed[file] or len(starts) < 2 else int(starts[0])
        return first + np.concatenate([[0], np.cumsum(self.block_bytes[of_file])]).astype(np.int64)

    def _read_ranges(self, files: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> list[bytes]:
        blocks = np.concatenate(
            [
                self._first_blocks[file] + np.searchsorted(self._edges[file], starts[files == file], 'right') - 1
                for file in np.unique(files)
            ]
        )
        needed, numbers = np.unique(blocks, return_inverse=True)
        self._blocks.load_ahead(needed)
        if needed[-1] - needed[0] < len(needed):  # records are read in their order
            self._blocks.load_ahead(range(needed[-1] + 1, min(needed[-1] + 1 + _BLOCKS_AHEAD, len(self._begins))))
        held = [self._blocks.get(block) for block in needed]
        begins = self._begins[blocks]
        places = map(slice, (starts - begins).tolist(), (ends - begins).tolist())
        return list(map(part_of, map(held.__getitem__, numbers.tolist()), places))

    def _load(self, block: int) -> bytes:
        file = int(self._file_of_block[block])
        if self._compressed[file]:
            return self._decompress(file)
        begin, path = int(self._begins[block]), self._objects[file]
        return path.cache.read(path, begin, begin + int(self.block_bytes[block]))
