"""Turns rows of CSV into tensors, a whole batch at a time."""

import codecs
import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_trainer.data.files import column_types, contents, listing
from estimator_trainer.data.files.parsing import ExampleParser
from estimator_trainer.data.files.spec import Feature, FileSpec
from estimator_trainer.data.remote import threads
from estimator_trainer.data.remote.paths import RemotePath
from estimator_trainer.errors import UsageError

_TYPES = (tf.float32, tf.float64, tf.int32, tf.int64, tf.string)
_REPEATS = 'repeats the header of its file: were several files joined? Remove the line'
_SHOWN = 40  # characters of a value in a message


class CsvParser(ExampleParser):
    """Parses rows of CSV. The columns of each file may have an order of their own.

    Args:
        spec: the features, and the names of the columns.
        paths: the files.

    Raises:
        UsageError: a file lacks a column, or a column cannot be a feature.
        BadExample: a file is damaged.
        DatasetError: a file cannot be read.
    """

    def __init__(self, spec: FileSpec, paths: Sequence[str]) -> None:
        super().__init__(spec)
        self._spec = spec
        self._delimiter = spec.delimiter or listing.delimiter_of(paths)
        if len(self._delimiter) != 1 or not self._delimiter.isascii() or self._delimiter in '"\r\n':
            raise UsageError(
                f'FileSpec.delimiter={self._delimiter!r}: one ASCII letter is needed, and no quote or line end'
            )
        self._divide = Division(self._delimiter.encode())
        first_rows = _first_rows(paths)
        if spec.columns:
            layouts = [tuple(spec.columns)] * len(paths)
            self._refuse_headers(paths, first_rows)
        else:
            layouts = [_names(path, row, self._delimiter, spec) for path, row in zip(paths, first_rows)]
        self._columns: tuple[str, ...] = next(filter(None, layouts), ())
        for path, layout in zip(paths, layouts):
            self._check(path, layout)
        numbers: dict[tuple[str, ...], int] = {}
        self._layout_of_file = np.array([numbers.setdefault(each or self._columns, len(numbers)) for each in layouts])
        self._layouts = list(numbers)  # the first one is self._columns
        self._headers = self._rows_like_headers([] if spec.columns else first_rows)
        self._defaults = [_default_of(self.features.get(name)) for name in self._columns]  # a long row is an error

    def _check_feature(self, name: str, feature: Feature) -> None:
        column_types.check_feature(name, feature)
        if feature.dtype not in _TYPES:
            types = ', '.join(dtype.name for dtype in _TYPES)
            raise UsageError(f'feature {name!r}: no column of CSV is read as {feature.dtype.name}; use {types}')
        if isinstance(feature, tf.io.FixedLenFeature) and column_types.number(feature) != 1:
            raise UsageError(
                f'feature {name!r}: a column of CSV has one value in each row, and the shape {list(feature.shape)} has '
                f'{column_types.number(feature)}'
            )

    def _check(self, path: str, layout: tuple[str, ...]) -> None:
        for name in self.features if layout else ():  # a file without a line has no example
            if layout.count(name) > 1:
                raise UsageError(f'{path}: has {layout.count(name)} columns {name!r}; write it with different names')
            if len(layout) == 1 and (other := _delimiter_in(layout[0], name)):
                raise UsageError(
                    f'{path}: its first line is one column, and has the names with {other!r} between them; '
                    + self._spec.cure_of_delimiter(other)
                )
            if name not in layout:
                raise UsageError(
                    f'{path}: has no column {name!r}; its columns are {", ".join(layout)}. '
                    + self._spec.cure_of_no_column(name)
                )

    def _refuse_headers(self, paths: Sequence[str], first_rows: Sequence[bytes]) -> None:
        for path, row in zip(paths, first_rows):
            fields = self._divide(row.rstrip(b'\r\n'))
            if fields and tuple(map(unquoted, fields)) == tuple(self._spec.columns):
                raise UsageError(
                    f'{path}: its first line has the names of FileSpec.columns, and would become an example; remove '
                    'the line, or leave FileSpec.columns out if each file has such a line'
                )

    def _rows_like_headers(self, headers: Iterable[bytes]) -> frozenset[bytes]:
        """The rows that repeat a header and could be taken for examples: none if a name is no value of its column, or
        if there are so few columns that an example may well be the same: one of texts, or four that are all numbers,
        whose names are numbers too."""
        features = self.features
        if any(not _is_value(name, feature.dtype) for name, feature in features.items()):
            return frozenset()
        texts = any(feature.dtype == tf.string for feature in features.values()) or len(features) < len(self._columns)
        if len(self._columns) < (2 if texts else 5):
            return frozenset()
        rows = {self._divide.delimiter.join(form) for form in zip(*map(_forms, self._columns))}
        rows.update(header.rstrip(b'\r\n') for header in headers)
        return frozenset(rows | {codecs.BOM_UTF8 + row for row in rows})

    def arranged(self, parts: list[Any], files: np.ndarray) -> tuple[list[Any], dict[int, str]]:
        """See Parser.arranged: in all rows the columns get the order of the first file. There is one part."""
        others = np.flatnonzero(self._layout_of_file[files]) if len(self._layouts) > 1 else ()
        bad: dict[int, str] = {}
        if self._headers and not self._headers.isdisjoint(given := parts[0].tolist()):
            bad = {place: _REPEATS for place, row in enumerate(given) if row in self._headers}
        if not len(others):
            return parts, bad
        rows = parts[0].copy()
        for place in others:
            layout = self._layouts[self._layout_of_file[files[place]]]
            fields = self._divide(rows[place])
            if fields is None or len(fields) != len(layout):
                bad[int(place)] = (
                    f'has {len(fields)} fields, and its file {len(layout)} columns' if fields else 'cannot be divided'
                )
                continue
            by_name = dict(zip(layout, fields))
            rows[place] = self._divide.delimiter.join([by_name.get(name, b'') for name in self._columns]) or b'""'
        return [rows], bad

    def parse(self, raw: Sequence[tf.Tensor]) -> dict[str, Any]:
        columns = tf.io.decode_csv(raw[0], self._defaults, field_delim=self._delimiter)
        by_name = dict(zip(self._columns, columns))
        return {name: _shaped(by_name[name], feature) for name, feature in self.features.items()}

    def problem(self, raw: Sequence[np.ndarray]) -> str | None:
        reason = super().problem(raw)
        return reason and (len(raw[0]) == 1 and self._wrong_column(raw[0][0]) or reason)

    def joined_lines(self, record: bytes, file: int) -> int:
        """See Parser.joined_lines.

        It is one row if it has a field for each column, line ends in texts only, and no line that is a row by itself.
        """
        lines = re.split(rb'\r\n|\r|\n', record)
        numbers = self._numbers(record, file)
        is_one = numbers is not None and not any(re.search(r'[\r\n]', text) for text, _ in numbers)
        if len(lines) == 1 or (is_one and not any(self._is_row(line, file) for line in lines[1:-1])):
            return 0
        return len(lines)

    def _is_row(self, line: bytes, file: int) -> bool:
        numbers = self._numbers(line, file)
        return numbers is not None and all(not text or _is_value(text, dtype) for text, dtype in numbers)

    def _numbers(self, row: bytes, file: int) -> list[tuple[str, tf.DType]] | None:
        """The fields of a row that are read as numbers, and their types; None if it has not a field for each column."""
        layout, fields = self._layouts[self._layout_of_file[file]], self._divide(row)
        if fields is None or len(fields) != len(layout):
            return None
        dtypes = [self.features[name].dtype if name in self.features else tf.string for name in layout]
        return [(unquoted(field), dtype) for field, dtype in zip(fields, dtypes) if dtype != tf.string]

    def _wrong_column(self, row: bytes) -> str | None:
        """Why a column of a row cannot be parsed; None if that is not known."""
        fields = self._divide(row)
        if fields is None or len(fields) != len(self._columns):
            return None
        texts = tuple(map(unquoted, fields))
        if (texts[0].removeprefix('\ufeff'), *texts[1:]) in self._layouts:
            return _REPEATS
        for name, text in zip(self._columns, texts):
            feature = self.features.get(name)
            if feature is None:
                continue
            if not text:
                if isinstance(feature, tf.io.FixedLenFeature) and feature.default_value is None:
                    return f'column {name!r} is empty, {self._spec.cure_of_empty_field(name)}'
            elif not _is_value(text, feature.dtype):
                return f'column {name!r} is {text[:_SHOWN]!r}, which is no {feature.dtype.name}'
        return None


class Division:
    """Divides a row of CSV into its fields, as they stand there: with their quotes.

    Fields that are kept as they stand mean the same to decode_csv in any order.
    """

    def __init__(self, delimiter: bytes) -> None:
        self.delimiter = delimiter
        letter = re.escape(delimiter)
        field = rb'("[^"]*(?:""[^"]*)*"|[^"\r\n%s]*)%s' % (letter, letter)  # and the delimiter after it
        self._each, self._all = re.compile(field), re.compile(rb'(?:%s)*' % field)

    def __call__(self, row: bytes) -> list[bytes] | None:
        """The fields; None if quotes are where none can be, or are not closed."""
        if b'"' not in row:
            return row.split(self.delimiter)
        row += self.delimiter
        return self._each.findall(row) if self._all.fullmatch(row) else None


def unquoted(field: bytes) -> str:
    """What a field means, as text. Bytes that are no UTF-8 are surrogates."""
    meant = field[1:-1].replace(b'""', b'"') if field.startswith(b'"') else field
    return meant.decode('utf-8', 'surrogateescape')


def _delimiter_in(line: str, name: str) -> str:
    """What divides a line, if a name is one of its fields then; '' if nothing does."""
    others = (each for each in ';\t|,' if each in line)
    return next((each for each in others if name in [field.strip(' "') for field in line.split(each)]), '')


def _default_of(feature: Feature | None) -> np.ndarray:
    """The argument of decode_csv for a column: an array of its type, with its default if it has one."""
    if not isinstance(feature, tf.io.FixedLenFeature):  # the column is unused, or empty in a row without a value
        return np.array([b''], object)
    given = [] if feature.default_value is None else np.reshape(feature.default_value, [1]).tolist()
    if feature.dtype == tf.string:
        return np.array([tf.compat.as_bytes(value) for value in given], object)
    return np.array(given, feature.dtype.as_numpy_dtype)


def _shaped(column: tf.Tensor, feature: Feature) -> Any:
    """The values of a column as a Tensor, SparseTensor or RaggedTensor."""
    if isinstance(feature, tf.io.FixedLenFeature):
        return tf.reshape(column, [-1, *feature.shape])
    has_value = tf.not_equal(column, b'')
    values = tf.boolean_mask(column, has_value)
    if feature.dtype != tf.string:
        values = tf.strings.to_number(values, feature.dtype)
    lengths = tf.cast(has_value, column_types.lengths_type(feature))
    ragged = tf.RaggedTensor.from_row_lengths(values, lengths, validate=False)
    return ragged.to_sparse() if isinstance(feature, tf.io.VarLenFeature) else ragged


def _is_value(text: str, dtype: tf.DType) -> bool:
    if dtype == tf.string:
        return True
    try:
        return dtype.is_floating and float(text) is not None or dtype.min <= int(text) <= dtype.max
    except ValueError:
        return False


def _first_rows(paths: Sequence[str]) -> list[bytes]:
    """The first row of each file; b'' for a file without a row."""
    if isinstance(paths[0], RemotePath):
        return [future.result() for future in [threads.submit(contents.header_of_csv, path) for path in paths]]
    return list(map(contents.header_of_csv, paths))


def _forms(name: str) -> tuple[bytes, bytes]:
    """The field of a name as it is written where it needs quotes only, and with quotes in any case."""
    text = name.encode('utf-8', 'surrogateescape')
    quoted = b'"%s"' % text.replace(b'"', b'""')
    return (quoted if re.search(rb'[",;\t\r\n]', text) else text), quoted


def _names(path: str, row: bytes, delimiter: str, spec: FileSpec) -> tuple[str, ...]:
    text = io.StringIO(row.decode('utf-8', 'replace').rstrip('\r\n'), newline='')
    try:
        rows = list(csv.reader(text, delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise UsageError(f'{path}: its first row names no columns ({error}). {spec.cure_of_no_column()}') from None
    if len(rows) > 1:
        raise UsageError(
            f'{path}: a quote in its first row, which names the columns, is not closed there, and has taken in rows '
            'after it; write the names without quotes, or double the quote within quotes'
        )
    return tuple(rows[0]) if rows else ()
