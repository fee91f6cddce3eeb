"""Gives the records of TFRecord, CSV and ArrayRecord files by their number, as byte strings.

Files are read, not mapped into memory: if somebody shortened a mapped file, this process would be killed.
"""

import collections
import contextlib
import itertools
import operator
import os
import threading

import google_crc32c
import numpy as np

from estimator_trainer.data.files import borders, contents, listing, unreadable
from estimator_trainer.data.files.block_cache import BlockCache
from estimator_trainer.errors import BadExample

_BLOCK_BYTES = 2**20  # of files that can be entered anywhere
_OPEN_FILES = 256
_CHUNK_BYTES = 32 * 2**20
_GAP_BYTES = 4096  # between two records that are read with one call
_WITHOUT_LINE_ENDS = operator.methodcaller('rstrip', b'\r\n')
_DATA, _FOOTER = slice(borders.HEADER_BYTES, -borders.FOOTER_BYTES), slice(-borders.FOOTER_BYTES, None)


class IndexedFiles:
    """TFRecord or CSV files, each with an index of where its records begin.

    A file that is not compressed can be entered anywhere. A compressed one is a block: it is held decompressed.

    Attributes:
        sizes: examples of each file, int64.
        enters_anywhere: none of the files is compressed.
        block_sizes, block_bytes: see data.block_order.
    """

    _counts_lines = True  # where messages name one

    def __init__(self, paths, file_format: str, starts, most_bytes: int):
        self.paths, self._format, self._starts = paths, file_format, starts
        self._stamps = [unreadable.stamp(path) for path in paths]
        self._compressed = [self._is_compressed(number) for number in range(len(paths))]
        self.sizes = np.array([len(of_file) - 1 for of_file in starts])
        self.enters_anywhere = not any(self._compressed)
        decoded = [int(of_file[-1]) for of_file in starts]
        blocks = [self._blocks_of(number) for number in range(len(paths))]
        self.block_sizes = np.concatenate([sizes for sizes, _ in blocks])
        self.block_bytes = np.concatenate([num_bytes for _, num_bytes in blocks])
        self._file_of_block = np.repeat(range(len(paths)), [len(sizes) for sizes, _ in blocks])
        self._blocks = BlockCache(self._decompress, decoded, most_bytes)
        self._open, self._lock = collections.OrderedDict(), threading.Lock()

    def read(self, files, records):
        """The bytes of some records.

        Args:
            files, records: int64 [n], sorted by file and record, each record once.

        Returns:
            ([object [n] of bytes], {place in the request: why that record cannot be used}).

        Raises:
            DatasetError: a file has changed, or cannot be read.
        """
        touched, counts = np.unique(files, return_counts=True)
        of_files = [(int(file), part) for file, part in zip(touched, np.split(records, np.cumsum(counts)[:-1]))]
        starts = np.concatenate([self._starts[file][part] for file, part in of_files])
        ends = np.concatenate([self._starts[file][part + 1] for file, part in of_files])
        found = self._read_ranges(files, starts, ends)
        for file, _ in of_files:
            check_unchanged(self.paths[file], self._stamps[file])
        if self._format == 'csv':
            return [_objects(map(_WITHOUT_LINE_ENDS, found))], {}
        taken = list(map(operator.getitem, found, itertools.repeat(_DATA)))
        crcs = np.fromiter(map(google_crc32c.value, taken), np.uint32, len(taken))
        footers = b''.join(map(operator.getitem, found, itertools.repeat(_FOOTER)))
        wrong = np.flatnonzero(borders.masked(crcs) != np.frombuffer(footers, '<u4'))
        return [_objects(taken)], {int(place): 'its checksum does not fit its data' for place in wrong}

    def where(self, file: int, record: int) -> str:
        kind = 'row' if self._format == 'csv' else 'record'
        place = f'{kind} {record} at byte {self._starts[file][record]:,}'
        if self._format == 'csv' and self._counts_lines and not self._compressed[file]:
            lines_before = self._lines_before(file, int(self._starts[file][record]))
            place = f'line {lines_before + 1}'
        return f'{self.paths[file]}, {place}'

    def load_ahead(self, blocks, beside=()) -> None:
        """The first blocks are needed soon, those `beside` them now."""
        self._blocks.load_ahead(self._compressed_files(blocks), self._compressed_files(beside))

    def _compressed_files(self, blocks) -> list[int]:
        found = np.unique(self._file_of_block[np.asarray(blocks, int)])
        return [int(file) for file in found if self._compressed[file]]

    @property
    def held_bytes(self) -> int:
        """Of the blocks that are held in memory now."""
        return self._blocks.held_bytes

    def _read_ranges(self, files, starts, ends) -> list[bytes]:
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
        return list(map(operator.getitem, map(runs.__getitem__, run_of.tolist()), places))

    def _read_runs(self, files, starts, sizes) -> list[bytes]:
        touched = set(files)
        if not self.enters_anywhere or len(touched) > _OPEN_FILES:
            return list(map(self._read_run, files, starts, sizes))
        opened = {file: self._opened(file) for file in touched}
        try:
            descriptors = [opened[file].fileno() for file in files]
            found = list(map(os.pread, descriptors, sizes, starts))
        except OSError:
            found = []
        if list(map(len, found)) == sizes:
            return found
        return list(map(self._read_run, files, starts, sizes))  # one call may return fewer bytes, or fail

    def _read_run(self, file, start, size) -> bytes:
        if self._compressed[file]:
            return self._blocks.get(file)[start : start + size]
        return _bytes(self._opened(file), start, size)

    def _lines_before(self, file, end):
        opened, chunks = self._opened(file), range(0, end, _CHUNK_BYTES)
        return sum(_bytes(opened, at, min(_CHUNK_BYTES, end - at)).count(b'\n') for at in chunks)

    def _opened(self, file):
        """A file that is evicted is closed when no thread reads it any more."""
        with self._lock:
            found = self._open.get(file)
            if found is None:
                try:
                    found = self._open[file] = open(self.paths[file], 'rb', buffering=0)
                except OSError as error:
                    raise unreadable.because(self.paths[file], error) from error
            self._open.move_to_end(file)
            if len(self._open) > _OPEN_FILES:
                self._open.popitem(last=False)
            return found

    def _is_compressed(self, file) -> bool:
        return contents.is_compressed(self.paths[file], self._format)

    def _decompress(self, file):
        with unchanged(self.paths[file], self._stamps[file]):
            return contents.decompressed(self.paths[file])

    def _blocks_of(self, file):
        """-> examples and bytes of each block of a file."""
        starts = self._starts[file]
        if self._compressed[file] or len(starts) < 2:
            return [len(starts) - 1], [int(starts[-1])]
        edges = np.unique(np.searchsorted(starts[:-1], np.arange(starts[0], starts[-1], _BLOCK_BYTES)))
        edges = np.append(edges, len(starts) - 1)
        return np.diff(edges), np.diff(starts[edges])


class ArrayRecordFiles:
    """ArrayRecord files, which have an index of their own. The attributes and methods are those of IndexedFiles."""

    enters_anywhere = True
    held_bytes = 0

    def __init__(self, paths):
        from array_record.python import array_record_module

        self.paths, self._locks = paths, [threading.Lock() for _ in paths]
        self._stamps = [unreadable.stamp(path) for path in paths]
        self._module, self._readers = array_record_module, collections.OrderedDict()
        self._lock = threading.Lock()
        self.sizes = np.array([self._reader(file).num_records() for file in range(len(paths))])
        self.block_sizes, num_bytes = [], []
        for path, size in zip(paths, self.sizes):
            blocks = min(max(1, listing.stamp(path).size // _BLOCK_BYTES), max(1, size))
            self.block_sizes += np.diff(np.arange(blocks + 1) * size // blocks).tolist()
            num_bytes += [listing.stamp(path).size // blocks] * int(blocks)
        self.block_sizes, self.block_bytes = np.array(self.block_sizes), np.array(num_bytes)

    def _reader(self, file):
        """One that nobody uses any more is closed with the last reference to it."""
        with self._lock:
            reader = self._readers.pop(file, None) or self._opened(self.paths[file])
            self._readers[file] = reader
            if len(self._readers) > _OPEN_FILES:
                self._readers.popitem(last=False)
            return reader

    def _opened(self, path):
        try:
            open(path, 'rb').close()  # the library does not say why it cannot open a file
        except OSError as error:
            raise unreadable.because(path, error) from error
        reader = self._module.ArrayRecordReader(path, 'readahead_buffer_size:0')
        if not reader.ok():
            raise BadExample(f'{path}: is damaged, cut short, or no ArrayRecord file; copy it again, or leave it out')
        return reader

    def read(self, files, records):
        return file_by_file(self._read, files, records)

    def _read(self, file, records):
        bad, wanted = {}, records.tolist()
        with self._locks[file], unchanged(self.paths[file], self._stamps[file]):
            reader = self._reader(file)
            try:
                found = reader.read(wanted)
            except (RuntimeError, ValueError, IndexError):
                found = [self._read_one(reader, record, place, bad) for place, record in enumerate(wanted)]
        return _objects(found), bad

    def _read_one(self, reader, record, place, bad):
        try:
            return reader.read([record])[0]
        except (RuntimeError, ValueError, IndexError) as error:
            bad[place] = f'it cannot be read ({_one_line(error)})'
            return b''

    def where(self, file: int, record: int) -> str:
        return f'{self.paths[file]}, record {record}'

    def load_ahead(self, blocks, beside=()) -> None:
        pass


def file_by_file(read, files, records):
    """IndexedFiles.read, where `read` gives (part, {place: why}) of records of one file."""
    parts, bad = [], {}
    for file in np.unique(files):
        places = np.flatnonzero(files == file)
        part, bad_here = read(int(file), records[places])
        parts.append(part)
        bad.update({int(places[place]): reason for place, reason in bad_here.items()})
    return parts, bad


def _bytes(opened, start, size):
    """`size` bytes of an open file. One call may return fewer."""
    parts = []
    while size:
        try:
            part = os.pread(opened.fileno(), size, start)
        except OSError as error:
            raise unreadable.because(opened.name, error) from error
        if not part:
            raise contents.has_changed(opened.name)
        parts.append(part)
        start, size = start + len(part), size - len(part)
    return parts[0] if len(parts) == 1 else b''.join(parts)


@contextlib.contextmanager
def unchanged(path, stamp):
    """Around what reads a file. If the file is not as it was, that is why it is damaged. Raises as check_unchanged."""
    try:
        yield
    except BadExample:
        check_unchanged(path, stamp)
        raise
    check_unchanged(path, stamp)


def check_unchanged(path, stamp) -> None:
    """Raises DatasetError if a file is not as it was when training began."""
    try:
        same = listing.stamp(path) == stamp
    except OSError as error:
        raise unreadable.because(path, error, ' any more') from error
    if not same:
        raise contents.has_changed(path)


def _objects(values):
    """object [n] of bytes."""
    values = list(values)
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _one_line(error) -> str:
    return ' '.join(str(error).split())[:200]
