"""Reads Parquet files. Blocks are row groups, and columns become tensors without a loop over rows."""

import collections
import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow
import pyarrow.parquet
import tensorflow as tf

from estimator_trainer.data.files import column_types, contents, listing, parquet_columns, units, unreadable
from estimator_trainer.data.files.block_cache import BlockCache
from estimator_trainer.data.files.parsing import with_plain_defaults
from estimator_trainer.data.files.records import file_by_file, unchanged
from estimator_trainer.data.files.spec import Feature, FileSpec
from estimator_trainer.data.remote import threads
from estimator_trainer.data.remote.paths import RemotePath
from estimator_trainer.errors import BadExample, DatasetError

_FOOTERS = 64  # that are held; others are read again when they are needed
_SAMPLES = 3  # row groups that are decoded to see how large they are in memory
_T = TypeVar('_T')


class _Block(NamedTuple):
    """A decoded row group: its rows, and why some of them cannot be used, by their number in the group."""

    table: pyarrow.Table
    bad: dict[int, str]


class _OfFooter(NamedTuple):
    """What the footer of a file says: the number of rows of each row group, and the unit of each column."""

    rows_of_groups: list[int]
    units: tuple[units.Unit | None, ...]


class ParquetFiles:
    """Both the store of rows and their parser: it has the members of interfaces.Store and interfaces.Parser.

    Args:
        paths: the files.
        spec: the features.
        most_bytes: the most bytes of decoded row groups that are held in memory.
        stamps: of the files, from before they are opened.

    Attributes:
        block_bytes: the bytes of each decoded row group, estimated from its number of rows and from a few decoded ones.

    Raises:
        UsageError: a file lacks a column, or has one of another type or unit.
        BadExample: a file is damaged.
        DatasetError: a file cannot be read.
    """

    enters_anywhere = False

    def __init__(self, paths: Sequence[str], spec: FileSpec, most_bytes: int, stamps: Sequence[listing.Stamp]) -> None:
        self.paths, self._stamps = paths, stamps
        self._footers = _Footers()
        self.features: dict[str, Feature] = {}
        if spec.features is None:  # the first file says what the features are
            self.features = column_types.features_of(self._schema(paths[0]), paths[0])
        else:
            self.features = with_plain_defaults(spec.features)
            for name, feature in self.features.items():
                column_types.check_feature(name, feature)
        self._names = sorted(self.features)
        footers = _each(self._of_footer, paths)
        rows = [each.rows_of_groups for each in footers]
        self.units = units.columns(paths, self._names, (each.units for each in footers))
        self._first_block = np.concatenate([[0], np.cumsum([len(of_file) for of_file in rows])]).astype(int)
        self._first_rows = [np.concatenate([[0], np.cumsum(of_file)]).astype(np.int64) for of_file in rows]
        self.sizes = np.array([int(firsts[-1]) for firsts in self._first_rows])
        self.block_sizes = np.concatenate([np.asarray(of_file, np.int64) for of_file in rows])
        self.types = [dtype for name in self._names for dtype in parquet_columns.raw_types(self.features[name])]
        self.block_bytes = self._expected_bytes()
        self._blocks: BlockCache[_Block] = BlockCache(
            self._read_block, self.block_bytes, most_bytes, size_of=_held_bytes
        )

    def read(self, files: np.ndarray, records: np.ndarray) -> tuple[list[Any], dict[int, str]]:
        """See Store.read. There is a part for each file: a pyarrow.Table."""
        return file_by_file(self._read, files, records)

    def _read(self, file: int, records: np.ndarray) -> tuple[pyarrow.Table, dict[int, str]]:
        with unchanged(self.paths[file], self._stamps[file]):
            return self._read_rows(file, records)

    def _read_rows(self, file: int, records: np.ndarray) -> tuple[pyarrow.Table, dict[int, str]]:
        firsts = self._first_rows[file]
        groups = np.searchsorted(firsts, records, 'right') - 1
        parts: list[pyarrow.Table] = []
        bad: dict[int, str] = {}
        for group in np.unique(groups):
            block = self._blocks.get(int(self._first_block[file] + group))
            places = np.flatnonzero(groups == group)
            rows = records[places] - firsts[group]
            parts.append(block.table.take(pyarrow.array(rows)))
            if block.bad:
                bad.update({int(p): block.bad[int(row)] for p, row in zip(places, rows) if int(row) in block.bad})
        return pyarrow.concat_tables(parts), bad

    def where(self, file: int, record: int) -> str:
        """See Store.where."""
        return f'{self.paths[file]}, row {record}'

    def load_ahead(self, blocks: Iterable[int], beside: Iterable[int] = ()) -> None:
        """See Store.load_ahead."""
        self._blocks.load_ahead(blocks, beside)

    @property
    def held_bytes(self) -> int:
        """See Store.held_bytes."""
        return self._blocks.held_bytes

    def arranged(self, parts: list[Any], files: np.ndarray) -> tuple[list[Any], dict[int, str]]:
        """See Parser.arranged: the columns have names, so nothing is to be done."""
        return parts, {}

    def raw(self, parts: Sequence[pyarrow.Table], inverse: np.ndarray) -> list[np.ndarray]:
        """See Parser.raw.

        There is an array for each feature, and two for a feature of varying length: the values of all rows, and the
        number of values in each row.
        """
        table = pyarrow.concat_tables(parts).take(pyarrow.array(inverse)).combine_chunks()
        return [
            array
            for name in self._names
            for array in parquet_columns.arrays(parquet_columns.in_one(table[name]), self.features[name])
        ]

    def parse(self, raw: Sequence[tf.Tensor]) -> dict[str, Any]:
        """See Parser.parse."""
        columns = iter(raw)
        parsed: dict[str, Any] = {}
        for name in self._names:
            feature = self.features[name]
            parsed[name] = parquet_columns.tensor([next(columns) for _ in parquet_columns.raw_types(feature)], feature)
        return parsed

    def problem(self, raw: Sequence[np.ndarray]) -> str | None:
        """See Parser.problem: all that `read` accepts can be parsed."""
        return None

    def joined_lines(self, record: bytes, file: int) -> int:
        """See Parser.joined_lines."""
        return 0

    def _schema(self, path: str) -> column_types.Schema:
        return self._footers.read(path).schema.to_arrow_schema()

    def _of_footer(self, path: str) -> _OfFooter:
        """Reads what is needed of the footer of a file. Checks the columns of the file."""
        footer = self._footers.read(path)
        schema = footer.schema.to_arrow_schema()
        of_columns = []
        for name in self._names:
            column_types.check_column(path, schema, name, self.features[name])
            of_columns.append(column_types.unit(schema.field(name).type, self.features[name].dtype))
        rows = [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]
        return _OfFooter(rows, tuple(of_columns))

    def _expected_bytes(self) -> np.ndarray:
        """The bytes of each decoded row group: its rows times the bytes of a row in the largest of a few groups."""
        full = np.flatnonzero(self.block_sizes)
        if not len(full):
            return np.zeros(len(self.block_sizes), np.int64)
        samples = np.unique(full[np.linspace(0, len(full) - 1, _SAMPLES).astype(int)])
        for_a_row = 0.0
        for block in samples:
            with contextlib.suppress(BadExample):  # a damaged one is an error when it is needed
                for_a_row = max(for_a_row, _held_bytes(self._read_block(block)) / self.block_sizes[block])
        return np.ceil(self.block_sizes * for_a_row).astype(np.int64)

    def _read_block(self, block: int) -> _Block:
        file = int(np.searchsorted(self._first_block, block, 'right')) - 1
        group, path = int(block - self._first_block[file]), self.paths[file]
        try:
            footer = self._footers.read(path)
            with pyarrow.parquet.ParquetFile(
                contents.for_pyarrow(path), metadata=footer, page_checksum_verification=True
            ) as opened:
                table = opened.read_row_group(group, columns=self._names, use_threads=False)
            in_seconds = self._int96_in_seconds(path, footer, group, table.schema)
            for name in self._names:  # pages without a checksum may hold fewer rows than their header says
                if len(table[name]) != self.block_sizes[block]:
                    raise pyarrow.ArrowInvalid(f'{name} has {len(table[name])} rows')
            columns = {name: parquet_columns.decoded(table[name], name, self.features[name]) for name in self._names}
        except OSError as error:
            if error.errno:
                raise unreadable.because(path, error) from error
            raise self._damaged(file, group, error) from error
        except (pyarrow.ArrowNotImplementedError, pyarrow.ArrowMemoryError) as error:
            raise _not_here(path, error) from error
        except pyarrow.ArrowException as error:
            raise self._damaged(file, group, error) from error
        bad = {row: why for column in columns.values() for row, why in column.bad.items()}
        for name, seconds in in_seconds.items():
            bad.update(parquet_columns.outside_of_nanoseconds(table[name], seconds, name))
        return _Block(pyarrow.table({name: column.values for name, column in columns.items()}), bad)

    def _int96_in_seconds(
        self, path: str, footer: 'pyarrow.parquet.FileMetaData', group: int, schema: column_types.Schema
    ) -> dict[str, 'pyarrow.ChunkedArray']:
        """The columns of a row group that are stored as INT96, in seconds, by name.

        pyarrow reads INT96 as nanoseconds, and those outside of int64 become other times, without an error. As seconds
        all of them fit.
        """
        names = [name for name in self._names if column_types.has_nanoseconds(schema.field(name).type)]
        stored = map(footer.schema.column, range(len(footer.schema) if names else 0))
        if all(column.physical_type != 'INT96' for column in stored):
            return {}
        with pyarrow.parquet.ParquetFile(
            contents.for_pyarrow(path), metadata=footer, coerce_int96_timestamp_unit='s'
        ) as opened:
            table = opened.read_row_group(group, columns=names, use_threads=False)
        return {name: table[name] for name in names if not column_types.has_nanoseconds(table[name].type)}

    def _damaged(self, file: int, group: int, error: Exception) -> BadExample:
        rows = self._first_rows[file]
        return BadExample(
            f'{self.paths[file]}, rows {rows[group]} to {rows[group + 1] - 1} (row group {group}): cannot be read '
            f'({_one_line(error)}); copy the file again, write it anew, or leave it out'
        )


class _Footers:
    """Reads the footers of files. Only the last ones used are held, because a footer can be large: it has an entry for
    each column of each row group."""

    def __init__(self) -> None:
        self._held: collections.OrderedDict[str, pyarrow.parquet.FileMetaData] = collections.OrderedDict()
        self._lock = threading.Lock()

    def read(self, path: str) -> 'pyarrow.parquet.FileMetaData':
        """The footer of a file.

        Raises:
            BadExample: the file is damaged.
            DatasetError: the file cannot be read.
        """
        with self._lock:
            if path in self._held:
                self._held.move_to_end(path)
                return self._held[path]
        footer = _footer(path)
        with self._lock:
            self._held[path] = footer
            if len(self._held) > _FOOTERS:
                self._held.popitem(last=False)
        return footer


def _footer(path: str) -> 'pyarrow.parquet.FileMetaData':
    try:
        return pyarrow.parquet.read_metadata(contents.for_pyarrow(path))
    except (pyarrow.ArrowNotImplementedError, pyarrow.ArrowMemoryError) as error:
        raise _not_here(path, error) from error
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno:
            raise unreadable.because(path, error) from error
        raise BadExample(
            f'{path}: is damaged, cut short, or no Parquet file ({_one_line(error)}); copy it again, or leave it out'
        ) from error


def _not_here(path: str, error: Exception) -> Exception:
    """The error for a file that may be right, but that pyarrow cannot read on this machine."""
    if isinstance(error, MemoryError):
        return MemoryError(f'{path}: {_one_line(error)}')
    return DatasetError(f'{path}: pyarrow {pyarrow.__version__} cannot read it ({_one_line(error)}); write it anew')


def _one_line(error: Exception) -> str:
    return ' '.join(str(error).split())[:200]


def _each(function: Callable[[str], _T], paths: Sequence[str]) -> list[_T]:
    """function(path) for each path. It runs in parallel for the objects of a store, after the first one."""
    if not isinstance(paths[0], RemotePath):
        return [function(path) for path in paths]
    first = function(paths[0])
    others: list[Future[_T]] = [threads.submit(function, path) for path in paths[1:]]
    return [first, *(future.result() for future in others)]


def _held_bytes(block: _Block) -> int:
    return block.table.nbytes
