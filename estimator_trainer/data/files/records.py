"""Reads the records of TFRecord and CSV files by their number, as byte strings.

Files are read, not mapped into memory: if somebody shortened a mapped file, this process would be killed.
"""

import collections
import contextlib
import itertools
import operator
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import FileIO
from typing import Any, cast

import google_crc32c
import numpy as np

from estimator_trainer.data.files import borders, contents, listing, unreadable
from estimator_trainer.data.files.block_cache import BlockCache
from estimator_trainer.data.files.spec import KNOWN_FORMATS
from estimator_trainer.errors import BadExample

_BLOCK_BYTES = 2**20  # the size of a block of files from which any example can be read
_OPEN_FILES = 256
_CHUNK_BYTES = 32 * 2**20
_GAP_BYTES = 4096  # the largest gap between two records that are read with one call
_WITHOUT_LINE_ENDS = operator.methodcaller('rstrip', b'\r\n')
_DATA, _FOOTER = slice(borders.HEADER_BYTES, -borders.FOOTER_BYTES), slice(-borders.FOOTER_BYTES, None)


part_of = cast('Callable[[bytes, slice], bytes]', operator.getitem)


class IndexedFiles:
    """TFRecord or CSV files, each with an index of its records.

    A compressed file is a block, which is held decompressed in memory. From other files any record can be read.

    Args:
        paths: the files.
        file_format: a format of _RECORDS_OF: 'tfrecord' or 'csv'.
        starts: the index of each file, as index.load_all makes it.
        most_bytes: the most bytes of decompressed files that are held in memory.
        stamps: of the files, from before the indexes were made.

    It has the members of interfaces.Store.
    """

    _counts_lines = True  # messages name the line of a row

    def __init__(
        self,
        paths: Sequence[str],
        file_format: str,
        starts: Sequence[np.ndarray],
        most_bytes: int,
        stamps: Sequence[listing.Stamp],
    ) -> None:
        self.paths, self._format, self._starts, self._stamps = paths, file_format, starts, stamps
        self._is_text, self._records_of = KNOWN_FORMATS[file_format].is_text, _RECORDS_OF[file_format]
        self._compressed = [self._is_compressed(number) for number in range(len(paths))]
        self.sizes = np.array([len(of_file) - 1 for of_file in starts])
        self.enters_anywhere = not any(self._compressed)
        decoded = [int(of_file[-1]) for of_file in starts]
        blocks = [self._blocks_of(number) for number in range(len(paths))]
        self.block_sizes = np.concatenate([sizes for sizes, _ in blocks])
        self.block_bytes = np.concatenate([num_bytes for _, num_bytes in blocks])
        self._file_of_block = np.repeat(range(len(paths)), [len(sizes) for sizes, _ in blocks])
        self._blocks = BlockCache(self._decompress, decoded, most_bytes)
        self._open: collections.OrderedDict[int, FileIO] = collections.OrderedDict()
        self._lock = threading.Lock()

    def read(self, files: np.ndarray, records: np.ndarray) -> tuple[list[Any], dict[int, str]]:
        """See Store.read. There is one part: the bytes of the records, an array object [n]."""
        touched, counts = np.unique(files, return_counts=True)
        of_files = [(int(file), part) for file, part in zip(touched, np.split(records, np.cumsum(counts)[:-1]))]
        starts = np.concatenate([self._starts[file][part] for file, part in of_files])
        ends = np.concatenate([self._starts[file][part + 1] for file, part in of_files])
        frames = self._read_ranges(files, starts, ends)
        for file, _ in of_files:
            check_unchanged(self.paths[file], self._stamps[file])
        data, bad = self._records_of(frames)
        return [data], bad

    def where(self, file: int, record: int) -> str:
        """See Store.where."""
        kind = 'row' if self._is_text else 'record'
        place = f'{kind} {record} at byte {self._starts[file][record]:,}'
        if self._is_text and self._counts_lines and not self._compressed[file]:
            lines_before = self._lines_before(file, int(self._starts[file][record]))
            place = f'line {lines_before + 1}'
        return f'{self.paths[file]}, {place}'

    def load_ahead(self, blocks: Iterable[int], beside: Iterable[int] = ()) -> None:
        """See Store.load_ahead."""
        self._blocks.load_ahead(self._compressed_files(blocks), self._compressed_files(beside))

    def _compressed_files(self, blocks: Any) -> list[int]:
        files = np.unique(self._file_of_block[np.asarray(blocks, int)])
        return [int(file) for file in files if self._compressed[file]]

    @property
    def held_bytes(self) -> int:
        """See Store.held_bytes."""
        return self._blocks.held_bytes

    def _read_ranges(self, files: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> list[bytes]:
        """The bytes of each of these ranges, which are sorted. Neighbours are read with one call."""
        jumps = np.flatnonzero((starts[1:] - ends[:-1] > _GAP_BYTES) | (files[1:] != files[:-1])) + 1
        firsts, lasts = np.append(0, jumps), np.append(jumps, len(starts)) - 1
        begins = starts[firsts]
        runs = self._read_runs(files[firsts].tolist(), begins.tolist(), (ends[lasts] - begins).tolist())
        if len(runs) == len(starts):
            return runs
        run_of = np.repeat(np.arange(len(runs)), lasts - firsts + 1)
        begins = begins[run_of]
        places = map(slice, (starts - begins).tolist(), (ends - begins).tolist())
        return list(map(part_of, map(runs.__getitem__, run_of.tolist()), places))

    def _read_runs(self, files: list[int], starts: list[int], sizes: list[int]) -> list[bytes]:
        touched = set(files)
        if not self.enters_anywhere or len(touched) > _OPEN_FILES:
            return list(map(self._read_run, files, starts, sizes))
        opened = {file: self._opened(file) for file in touched}
        try:
            descriptors = [opened[file].fileno() for file in files]
            runs = list(map(os.pread, descriptors, sizes, starts))
        except OSError:
            runs = []
        if list(map(len, runs)) == sizes:
            return runs
        return list(map(self._read_run, files, starts, sizes))  # one call may return fewer bytes, or fail

    def _read_run(self, file: int, start: int, size: int) -> bytes:
        if self._compressed[file]:
            return self._blocks.get(file)[start : start + size]
        return _bytes(self._opened(file), start, size)

    def _lines_before(self, file: int, end: int) -> int:
        opened, lines, last = self._opened(file), 0, b''
        for at in range(0, end, _CHUNK_BYTES):
            chunk = last + _bytes(opened, at, min(_CHUNK_BYTES, end - at))
            last = chunk[-1:] if chunk.endswith(b'\r') and at + _CHUNK_BYTES < end else b''  # '\n' may come next
            chunk = chunk[: len(chunk) - len(last)]
            lines += chunk.count(b'\n') + chunk.count(b'\r') - chunk.count(b'\r\n')
        return lines

    def _opened(self, file: int) -> FileIO:
        """A file, open for reading. The last ones used stay open. Others are closed once no thread reads them."""
        with self._lock:
            opened = self._open.get(file)
            if opened is None:
                try:
                    opened = self._open[file] = open(self.paths[file], 'rb', buffering=0)
                except OSError as error:
                    raise unreadable.because(self.paths[file], error) from error
            self._open.move_to_end(file)
            if len(self._open) > _OPEN_FILES:
                self._open.popitem(last=False)
            return opened

    def _is_compressed(self, file: int) -> bool:
        return contents.is_compressed(self.paths[file], self._format)

    def _decompress(self, file: int) -> bytes:
        with unchanged(self.paths[file], self._stamps[file]):
            return contents.decompressed(self.paths[file])

    def _blocks_of(self, file: int) -> tuple[Sequence[int] | np.ndarray, Sequence[int] | np.ndarray]:
        """The number of examples, and of bytes, of each block of a file."""
        starts = self._starts[file]
        if self._compressed[file] or len(starts) < 2:
            return [len(starts) - 1], [int(starts[-1])]
        edges = np.unique(np.searchsorted(starts[:-1], np.arange(starts[0], starts[-1], _BLOCK_BYTES)))
        edges = np.append(edges, len(starts) - 1)
        return np.diff(edges), np.diff(starts[edges])


def _of_frames(frames: list[bytes]) -> tuple[np.ndarray, dict[int, str]]:
    data = list(map(part_of, frames, itertools.repeat(_DATA)))
    crcs = np.fromiter(map(google_crc32c.value, data), np.uint32, len(data))
    footers = b''.join(map(part_of, frames, itertools.repeat(_FOOTER)))
    wrong = np.flatnonzero(borders.masked(crcs) != np.frombuffer(footers, '<u4'))
    return objects(data), {int(place): 'its checksum does not fit its data' for place in wrong}


def _of_rows(rows: list[bytes]) -> tuple[np.ndarray, dict[int, str]]:
    return objects(map(_WITHOUT_LINE_ENDS, rows)), {}


# The bytes from one border of an index to the next -> the records, and why some cannot be used, by their places.
_RECORDS_OF = {'tfrecord': _of_frames, 'csv': _of_rows}


def file_by_file(
    read: Callable[[int, np.ndarray], tuple[Any, dict[int, str]]], files: np.ndarray, records: np.ndarray
) -> tuple[list[Any], dict[int, str]]:
    """Does what Store.read does, with a part for each file.

    Args:
        read: (number of a file, numbers of its records) -> (the part, why some records cannot be used by their places).
        files, records: see Store.read.
    """
    parts: list[Any] = []
    bad: dict[int, str] = {}
    for file in np.unique(files):
        places = np.flatnonzero(files == file)
        part, bad_of_file = read(int(file), records[places])
        parts.append(part)
        bad.update({int(places[place]): reason for place, reason in bad_of_file.items()})
    return parts, bad


def _bytes(opened: FileIO, start: int, size: int) -> bytes:
    """`size` bytes of an open file. One call of the operating system may return fewer."""
    parts = []
    while size:
        try:
            part = os.pread(opened.fileno(), size, start)
        except OSError as error:
            raise unreadable.because(str(opened.name), error) from error
        if not part:
            raise contents.has_changed(str(opened.name))
        parts.append(part)
        start, size = start + len(part), size - len(part)
    return parts[0] if len(parts) == 1 else b''.join(parts)


@contextlib.contextmanager
def unchanged(path: str, stamp: listing.Stamp) -> Iterator[None]:
    """A context in which a file is read. If the file has changed, this is reported and not the damage that it causes.

    Raises:
        DatasetError: as check_unchanged.
    """
    try:
        yield
    except BadExample:
        check_unchanged(path, stamp)
        raise
    check_unchanged(path, stamp)


def check_unchanged(path: str, stamp: listing.Stamp) -> None:
    """Raises DatasetError if a file has changed since `stamp` was taken, or cannot be read any more."""
    try:
        same = listing.stamp(path) == stamp
    except OSError as error:
        raise unreadable.because(path, error, ' any more') from error
    if not same:
        raise contents.has_changed(path)


def objects(values: Iterable[bytes]) -> np.ndarray:
    """The values as an array object [n]."""
    values = list(values)
    array = np.empty(len(values), object)
    array[:] = values
    return array
