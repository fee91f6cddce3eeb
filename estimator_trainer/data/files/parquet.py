"""Parquet files: blocks are row groups, columns become tensors without a loop over rows."""

import collections
import contextlib
import threading
from typing import NamedTuple

import numpy as np
import pyarrow
import pyarrow.parquet

from estimator_trainer.data.files import column_types, parquet_columns, unreadable
from estimator_trainer.data.files.block_cache import BlockCache
from estimator_trainer.data.files.parsing import with_plain_defaults
from estimator_trainer.data.files.records import file_by_file, unchanged
from estimator_trainer.data.files.spec import FileSpec
from estimator_trainer.data.remote import threads
from estimator_trainer.data.remote.paths import RemoteFile, RemotePath
from estimator_trainer.errors import BadExample, DatasetError

_FOOTERS = 64  # that are held; each is read again when it is needed
_SAMPLES = 3  # row groups that are decoded to see how large they are in memory


class _Block(NamedTuple):
    """A decoded row group: its rows, and which of them cannot be used, and why."""

    table: pyarrow.Table
    bad: dict[int, str]


class ParquetFiles:
    """Both where rows come from and what makes tensors of them; the methods are those of IndexedFiles and Examples.

    Attributes:
        block_bytes: of the decoded row groups, as far as it is known before they are decoded: those of a few of them
            by their numbers of rows.

    Raises:
        UsageError: a file has no such column, or one of another type.
        BadExample: a file is damaged.
        DatasetError: a file cannot be read.
    """

    enters_anywhere = False

    def __init__(self, paths, spec: FileSpec, most_bytes: int):
        self.paths, self._stamps = paths, [unreadable.stamp(path) for path in paths]
        self._footers = _Footers()
        self.features = None if spec.features is None else with_plain_defaults(spec.features)
        for name, feature in (self.features or {}).items():
            column_types.check_feature(name, feature)
        rows = _each(self._rows_of_groups, paths)
        self._names = sorted(self.features)
        self._first_block = np.concatenate([[0], np.cumsum([len(of_file) for of_file in rows])]).astype(int)
        self._first_rows = [np.concatenate([[0], np.cumsum(of_file)]).astype(np.int64) for of_file in rows]
        self.sizes = np.array([int(firsts[-1]) for firsts in self._first_rows])
        self.block_sizes = np.concatenate([np.asarray(of_file, np.int64) for of_file in rows])
        self.types = [dtype for name in self._names for dtype in parquet_columns.raw_types(self.features[name])]
        self.block_bytes = self._expected_bytes()
        self._blocks = BlockCache(self._read_block, self.block_bytes, most_bytes, size_of=_held_bytes)

    def read(self, files, records):
        """As in IndexedFiles, but the parts are a pyarrow.Table for each file."""
        return file_by_file(self._read, files, records)

    def _read(self, file, records):
        with unchanged(self.paths[file], self._stamps[file]):
            return self._read_rows(file, records)

    def _read_rows(self, file, records):
        firsts = self._first_rows[file]
        groups = np.searchsorted(firsts, records, 'right') - 1
        parts, bad = [], {}
        for group in np.unique(groups):
            block = self._blocks.get(int(self._first_block[file] + group))
            places = np.flatnonzero(groups == group)
            rows = records[places] - firsts[group]
            parts.append(block.table.take(pyarrow.array(rows)))
            if block.bad:
                bad.update({int(p): block.bad[int(row)] for p, row in zip(places, rows) if int(row) in block.bad})
        return pyarrow.concat_tables(parts), bad

    def where(self, file: int, record: int) -> str:
        return f'{self.paths[file]}, row {record}'

    def load_ahead(self, blocks, beside=()) -> None:
        self._blocks.load_ahead(blocks, beside)

    @property
    def held_bytes(self) -> int:
        return self._blocks.held_bytes

    def raw(self, parts, inverse):
        """The columns as arrays; two for each feature of varying length: the values of all rows, and how many each
        row has."""
        table = pyarrow.concat_tables(parts).take(pyarrow.array(inverse)).combine_chunks()
        return [
            array
            for name in self._names
            for array in parquet_columns.arrays(parquet_columns.in_one(table[name]), self.features[name])
        ]

    def parse(self, raw) -> dict:
        raw, parsed = iter(raw), {}
        for name in self._names:
            feature = self.features[name]
            parsed[name] = parquet_columns.tensor([next(raw) for _ in parquet_columns.raw_types(feature)], feature)
        return parsed

    def problem(self, raw) -> None:
        """Nothing is left to fail in `parse`."""

    def _rows_of_groups(self, path) -> list[int]:
        """Rows of each row group of a file whose columns are checked. The first file says what the features are."""
        footer = self._footers.read(path)
        schema = footer.schema.to_arrow_schema()
        if self.features is None:
            self.features = column_types.features_of(schema, path)
        for name, feature in self.features.items():
            column_types.check_column(path, schema, name, feature)
        return [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]

    def _expected_bytes(self):
        """What each row group takes when it is decoded, by the largest number of bytes for a row of a few of them."""
        full = np.flatnonzero(self.block_sizes)
        if not len(full):
            return np.zeros(len(self.block_sizes), np.int64)
        samples = np.unique(full[np.linspace(0, len(full) - 1, _SAMPLES).astype(int)])
        for_a_row = 0.0
        for block in samples:
            with contextlib.suppress(BadExample):  # a damaged one is an error when it is needed
                for_a_row = max(for_a_row, _held_bytes(self._read_block(block)) / self.block_sizes[block])
        return np.ceil(self.block_sizes * for_a_row).astype(np.int64)

    def _read_block(self, block) -> _Block:
        file = int(np.searchsorted(self._first_block, block, 'right')) - 1
        group, path = int(block - self._first_block[file]), self.paths[file]
        try:
            footer = self._footers.read(path)
            with pyarrow.parquet.ParquetFile(
                _readable(path), metadata=footer, page_checksum_verification=True
            ) as opened:
                table = opened.read_row_group(group, columns=self._names, use_threads=False)
            for name in self._names:  # pages without a checksum may hold fewer rows than their header says
                if len(table[name]) != self.block_sizes[block]:
                    raise pyarrow.ArrowInvalid(f'{name} has {len(table[name])} rows')
            found = {name: parquet_columns.decoded(table[name], name, self.features[name]) for name in self._names}
        except OSError as error:
            if error.errno:
                raise unreadable.because(path, error) from error
            raise self._damaged(file, group, error) from error
        except (pyarrow.ArrowNotImplementedError, pyarrow.ArrowMemoryError) as error:
            raise _not_here(path, error) from error
        except pyarrow.ArrowException as error:
            raise self._damaged(file, group, error) from error
        bad = {row: why for each in found.values() for row, why in each.bad.items()}
        return _Block(pyarrow.table({name: each.values for name, each in found.items()}), bad)

    def _damaged(self, file, group, error):
        rows = self._first_rows[file]
        return BadExample(
            f'{self.paths[file]}, rows {rows[group]} to {rows[group + 1] - 1} (row group {group}): cannot be read '
            f'({_one_line(error)}); copy the file again, write it anew, or leave it out'
        )


class _Footers:
    """Reads the footers of files, and holds the last ones used: each has an entry for each column of each row group."""

    def __init__(self):
        self._held, self._lock = collections.OrderedDict(), threading.Lock()

    def read(self, path):
        """Raises BadExample, DatasetError."""
        with self._lock:
            if path in self._held:
                self._held.move_to_end(path)
                return self._held[path]
        found = _footer(path)
        with self._lock:
            self._held[path] = found
            if len(self._held) > _FOOTERS:
                self._held.popitem(last=False)
        return found


def _footer(path):
    try:
        return pyarrow.parquet.read_metadata(_readable(path))
    except (pyarrow.ArrowNotImplementedError, pyarrow.ArrowMemoryError) as error:
        raise _not_here(path, error) from error
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno:
            raise unreadable.because(path, error) from error
        raise BadExample(
            f'{path}: is damaged, cut short, or no Parquet file ({_one_line(error)}); copy it again, or leave it out'
        ) from error


def _not_here(path, error) -> Exception:
    """Nothing is wrong with the file."""
    if isinstance(error, MemoryError):
        return MemoryError(f'{path}: {_one_line(error)}')
    return DatasetError(f'{path}: pyarrow {pyarrow.__version__} cannot read it ({_one_line(error)}); write it anew')


def _one_line(error) -> str:
    return ' '.join(str(error).split())[:200]


def _each(function, paths) -> list:
    """Those of a store are asked for in parallel, but for the first one."""
    if not isinstance(paths[0], RemotePath):
        return [function(path) for path in paths]
    first = function(paths[0])
    return [first, *(future.result() for future in [threads.submit(function, path) for path in paths[1:]])]


def _readable(path):
    """What pyarrow reads a file from: its path, or an object that fetches the columns asked for."""
    return RemoteFile(path) if isinstance(path, RemotePath) else path


def _held_bytes(block: _Block) -> int:
    return block.table.nbytes
