"""The rows of a prediction as files: one for each part, and in the end one for all.

A part is a file of its own until all are there. Each file is written under a temporary name, flushed to the disk and
renamed, so a part is there whole or not at all, whatever is killed.
"""

import contextlib
import itertools
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import files

SUFFIXES = ('.parquet', '.csv', '.jsonl')
TEMPORARY = '.tmp'
Columns = Mapping[str, np.ndarray]  # name -> array [rows, ...] of numbers, bools or bytes
_TEXT_ERRORS = 'backslashreplace'  # bytes that are no UTF-8


class Parts:
    """The parts of `rows` rows in a folder, with `rows_per_part` rows each; the last one may have fewer."""

    def __init__(self, folder: str, suffix: str, rows: int, rows_per_part: int):
        self._folder, self._suffix = folder, suffix
        self._rows, self._rows_per_part = rows, rows_per_part
        self.number = math.ceil(rows / rows_per_part)

    def path(self, part: int) -> str:
        return os.path.join(self._folder, f'part-{part:06}{self._suffix}')

    def range(self, part: int) -> range:
        """The rows of a part, from 0."""
        first = part * self._rows_per_part
        return range(first, min(first + self._rows_per_part, self._rows))

    def missing(self) -> list[int]:
        return [part for part in range(self.number) if not os.path.exists(self.path(part))]

    def write(self, part: int, batches: Sequence[Columns]) -> None:
        """Writes one part.

        Args:
            batches: the columns of each batch, in the order of the rows.

        Raises:
            UsageError: a CSV file cannot hold these columns.
            OSError: it cannot be written.
        """
        with _renamed(self.path(part)) as temporary:
            _WRITERS[self._suffix](temporary, batches)

    def join(self, to: str, each: Callable[[int], None]) -> None:
        """Writes all parts, in their order, into one file. Calls `each(part)` before each part.

        Raises:
            UsageError: a CSV file cannot hold these columns.
            OSError: a part cannot be read, or the file cannot be written.
        """

        def paths():
            for part in range(self.number):
                each(part)
                yield self.path(part)

        with _flushed(to):
            _JOINERS[self._suffix](paths(), to)


def has_any(folder: str) -> bool:
    """Whether a folder holds a part."""
    return any(name.startswith('part-') and name.endswith(SUFFIXES) for name in os.listdir(folder))


@contextlib.contextmanager
def _renamed(path) -> Iterator[str]:
    """A temporary name for a file, which gets its own name when it is on the disk."""
    with files.replacing(path) as temporary, _flushed(temporary):
        yield temporary


@contextlib.contextmanager
def _flushed(path):
    """The file is on the disk afterwards: a machine that goes down must not leave a name without content."""
    yield
    with open(path, 'rb') as file:
        os.fsync(file.fileno())


# Parquet: a column of lists for each output that has more than one value.


def _write_parquet(path, batches) -> None:
    tables = [pa.table({name: _nested(array) for name, array in columns.items()}) for columns in batches]
    pyarrow.parquet.write_table(pa.concat_tables(tables), path)


def _join_parquet(paths, to) -> None:
    with contextlib.ExitStack() as stack:
        writer = None
        for path in paths:
            table = pyarrow.parquet.read_table(path, partitioning=None)
            if writer is None:
                writer = stack.enter_context(pyarrow.parquet.ParquetWriter(to, table.schema))
            writer.write_table(table)


def _nested(array) -> pa.Array:
    """[rows, k, ...] -> lists of k values, and so on."""
    values = _flat(array)
    for axis in reversed(range(1, array.ndim)):
        number = math.prod(array.shape[:axis])
        values = pa.ListArray.from_arrays(np.arange(number + 1, dtype=np.int32) * array.shape[axis], values)
    return values


def _flat(array) -> pa.Array:
    values = array.reshape(-1)
    if values.dtype.kind in 'OS':
        return pa.array([_text(value) for value in values], pa.string())
    if values.dtype.kind not in 'biuf' or values.dtype == np.float16:  # bfloat16, which is no type of NumPy's own
        values = values.astype(np.float32)
    return pa.array(values)


def _text(value) -> str:
    return value.decode('utf-8', _TEXT_ERRORS) if isinstance(value, bytes) else str(value)


# CSV: a column for each value of an output. Each part has a header line, and so the parts can be compared.


def _write_csv(path, batches) -> None:
    tables = [pa.table(dict(_scalars(columns))) for columns in batches]
    for table in tables:
        _same_columns(table.schema.names, tables[0].schema.names)
    pyarrow.csv.write_csv(pa.concat_tables(tables), path)


def _scalars(columns) -> Iterator[tuple[str, pa.Array]]:
    for name, array in columns.items():
        for index in itertools.product(*map(range, array.shape[1:])):
            yield '_'.join([name, *map(str, index)]), _flat(array[(slice(None), *index)])


def _same_columns(one, other) -> None:
    if one != other:
        raise UsageError(
            'an output of the model does not have the same number of values in every batch, and a CSV file has fixed '
            'columns; write to --out=NAME.parquet or NAME.jsonl.'
        )


def _join_csv(paths, to) -> None:
    first = None
    with open(to, 'wb') as out:
        for path in paths:
            with open(path, 'rb') as file:
                header = file.readline()
                if first is None:
                    first = header
                    out.write(header)
                _same_columns(header, first)
                shutil.copyfileobj(file, out)


# JSON lines: null for what is not finite, which JSON does not know.


def _write_jsonl(path, batches) -> None:
    with open(path, 'w', encoding='utf-8') as file:
        for columns in batches:
            for row in zip(*map(_plain, columns.values())):
                file.write(json.dumps(dict(zip(columns, row)), ensure_ascii=False, allow_nan=False) + '\n')


def _join_jsonl(paths, to) -> None:
    with open(to, 'wb') as out:
        for path in paths:
            with open(path, 'rb') as file:
                shutil.copyfileobj(file, out)


def _plain(array) -> list:
    """[rows, k, ...] as lists. A float32 gets the shortest digits that give it back, like 0.1."""
    values = array.reshape(-1)
    if values.dtype.kind in 'OS':
        values = [_text(value) for value in values]
    elif values.dtype.kind in 'biu':
        values = values.tolist()
    else:
        values = values if values.dtype.kind == 'f' else values.astype(np.float32)
        values = [number if math.isfinite(number) else None for number in map(float, values.astype(str))]
    for size in reversed(array.shape[1:]):
        values = [values[at : at + size] for at in range(0, len(values), size)] if size else []
    return values if array.size or not len(array) else np.empty(array.shape).tolist()


_WRITERS = {'.parquet': _write_parquet, '.csv': _write_csv, '.jsonl': _write_jsonl}
_JOINERS = {'.parquet': _join_parquet, '.csv': _join_csv, '.jsonl': _join_jsonl}
