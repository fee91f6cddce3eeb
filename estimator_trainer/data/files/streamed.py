"""Reads records by their number, in blocks, from TFRecord and CSV files of a store that are larger than the cache."""

import operator

import numpy as np

from estimator_trainer.data.files.block_cache import BlockCache
from estimator_trainer.data.files.records import IndexedFiles
from estimator_trainer.data.remote import threads

_BLOCKS_AHEAD = 16  # of records that are read in their order; about a MiB each
_LEAST_BYTES = 64 * 2**20  # the blocks in use, and those ahead


class StreamedFiles(IndexedFiles):
    """As IndexedFiles. Blocks are those of data.block_order: they begin and end between two records."""

    _counts_lines = False  # they would have to be fetched

    def __init__(self, paths, file_format: str, starts, most_bytes: int):
        super().__init__(paths, file_format, starts, most_bytes)
        self.enters_anywhere = False
        self._first_blocks = np.searchsorted(self._file_of_block, np.arange(len(paths) + 1))
        self._edges = [self._edges_of(file) for file in range(len(paths))]
        self._begins = np.concatenate([edges[:-1] for edges in self._edges])
        self._blocks = BlockCache(self._load, self.block_bytes, max(most_bytes, _LEAST_BYTES), threads.submit)

    def load_ahead(self, blocks, beside=()) -> None:
        self._blocks.load_ahead(blocks, beside)

    def _is_compressed(self, file) -> bool:
        """The last record of a file that is not ends where the file ends. So no file has to be asked."""
        return int(self._starts[file][-1]) != self.paths[file].size

    def _edges_of(self, file):
        """Where each block of a file begins, and where the last one ends, in its decompressed bytes."""
        starts, mine = self._starts[file], slice(*self._first_blocks[file : file + 2])
        first = 0 if self._compressed[file] or len(starts) < 2 else int(starts[0])
        return first + np.concatenate([[0], np.cumsum(self.block_bytes[mine])]).astype(np.int64)

    def _read_ranges(self, files, starts, ends):
        blocks = np.concatenate(
            [
                self._first_blocks[file] + np.searchsorted(self._edges[file], starts[files == file], 'right') - 1
                for file in np.unique(files)
            ]
        )
        wanted, numbers = np.unique(blocks, return_inverse=True)
        self._blocks.load_ahead(wanted)
        if wanted[-1] - wanted[0] < len(wanted):  # they are read in their order
            self._blocks.load_ahead(range(wanted[-1] + 1, min(wanted[-1] + 1 + _BLOCKS_AHEAD, len(self._begins))))
        held = [self._blocks.get(block) for block in wanted]
        begins = self._begins[blocks]
        places = map(slice, (starts - begins).tolist(), (ends - begins).tolist())
        return list(map(operator.getitem, map(held.__getitem__, numbers.tolist()), places))

    def _load(self, block) -> bytes:
        file = int(self._file_of_block[block])
        if self._compressed[file]:
            return self._decompress(file)
        begin, path = int(self._begins[block]), self.paths[file]
        return path.cache.read(path, begin, begin + int(self.block_bytes[block]))
