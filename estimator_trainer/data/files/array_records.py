"""Reads the records of ArrayRecord files by their number, as byte strings."""

import collections
import os
import threading
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from estimator_trainer.data.files import listing, unreadable
from estimator_trainer.data.files.records import file_by_file, objects, unchanged
from estimator_trainer.errors import BadExample

_BLOCK_BYTES = 2**20  # the size of a block
_OPEN_FILES = 256


class ArrayRecordFiles:
    """ArrayRecord files, which have an index of their own. It has the members of interfaces.Store.

    Args:
        paths: the files.
        stamps: of the files, from before they are opened.
    """

    enters_anywhere = True
    held_bytes = 0

    def __init__(self, paths: Sequence[str], stamps: Sequence[listing.Stamp]) -> None:
        from array_record.python import array_record_module

        self.paths, self._locks = paths, [threading.Lock() for _ in paths]
        self._stamps = stamps
        self._module = array_record_module
        self._readers: collections.OrderedDict[int, Any] = collections.OrderedDict()
        self._lock = threading.Lock()
        self.sizes = np.array([self._reader(file).num_records() for file in range(len(paths))])
        block_sizes: list[int] = []
        block_bytes: list[int] = []
        for size, stamp in zip(self.sizes, stamps):
            blocks = min(max(1, stamp.size // _BLOCK_BYTES), max(1, size))
            block_sizes += np.diff(np.arange(blocks + 1) * size // blocks).tolist()
            block_bytes += [stamp.size // blocks] * int(blocks)
        self.block_sizes, self.block_bytes = np.array(block_sizes), np.array(block_bytes)

    def _reader(self, file: int) -> Any:
        """A reader of a file. The last ones used stay open. Others are closed with the last reference to them."""
        with self._lock:
            reader = self._readers.pop(file, None) or self._opened(self.paths[file])
            self._readers[file] = reader
            if len(self._readers) > _OPEN_FILES:
                self._readers.popitem(last=False)
            return reader

    def _opened(self, path: str) -> Any:
        try:
            open(path, 'rb').close()  # the library does not say why it cannot open a file
        except OSError as error:
            raise unreadable.because(path, error) from error
        name = os.fsencode(path)  # the library takes no text for a name that is not UTF-8
        reader = self._module.ArrayRecordReader(name, 'readahead_buffer_size:0')
        if not reader.ok():
            raise BadExample(f'{path}: is damaged, cut short, or no ArrayRecord file; copy it again, or leave it out')
        return reader

    def read(self, files: np.ndarray, records: np.ndarray) -> tuple[list[Any], dict[int, str]]:
        """See Store.read. There is a part for each file: the bytes of its records, an array object."""
        return file_by_file(self._read, files, records)

    def _read(self, file: int, records: np.ndarray) -> tuple[np.ndarray, dict[int, str]]:
        bad: dict[int, str] = {}
        numbers = records.tolist()
        with self._locks[file], unchanged(self.paths[file], self._stamps[file]):
            reader = self._reader(file)
            try:
                data = reader.read(numbers)
            except (RuntimeError, ValueError, IndexError):
                data = [self._read_one(reader, record, place, bad) for place, record in enumerate(numbers)]
        return objects(data), bad

    def _read_one(self, reader: Any, record: int, place: int, bad: dict[int, str]) -> bytes:
        try:
            data: bytes = reader.read([record])[0]
            return data
        except (RuntimeError, ValueError, IndexError) as error:
            bad[place] = f'it cannot be read ({_one_line(error)})'
            return b''

    def where(self, file: int, record: int) -> str:
        """See Store.where."""
        return f'{self.paths[file]}, record {record}'

    def load_ahead(self, blocks: Iterable[int], beside: Iterable[int] = ()) -> None:
        """Does nothing: no blocks are held."""


def _one_line(error: Exception) -> str:
    return ' '.join(str(error).split())[:200]
