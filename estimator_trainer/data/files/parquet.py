"""Parquet files: blocks are row groups, columns become tensors without a loop over rows."""

import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.parquet
import tensorflow as tf

from estimator_trainer.data.files import listing
from estimator_trainer.data.files.block_cache import BlockCache
from estimator_trainer.data.files.parsing import with_plain_defaults
from estimator_trainer.data.files.records import check_unchanged, file_by_file
from estimator_trainer.data.files.spec import FileSpec
from estimator_trainer.data.remote import threads
from estimator_trainer.data.remote.paths import RemoteFile, RemotePath
from estimator_trainer.errors import BadExample, DatasetError


class ParquetFiles:
    """Both where rows come from and what makes tensors of them; the methods are those of IndexedFiles and Examples.

    Raises:
        DatasetError: a file has no such column, or one of another type.
        BadExample: a file is damaged.
    """

    enters_anywhere = False

    def __init__(self, paths, spec: FileSpec, most_bytes: int):
        self.paths, self._stamps = paths, [listing.stamp(path) for path in paths]
        metadata = _all_metadata(paths)
        schema = metadata[0].schema.to_arrow_schema()
        self.features = (
            with_plain_defaults(spec.features) if spec.features is not None else _features_of(schema, paths[0])
        )
        for path, found in zip(paths, metadata):
            _check_columns(path, found.schema.to_arrow_schema(), self.features)
        self.sizes = np.array([found.num_rows for found in metadata])
        groups = [found.row_group(number) for found in metadata for number in range(found.num_row_groups)]
        self.block_sizes = np.array([group.num_rows for group in groups], np.int64)
        self.block_bytes = np.array([group.total_byte_size for group in groups], np.int64)
        counts = [found.num_row_groups for found in metadata]
        self._first_block = np.concatenate([[0], np.cumsum(counts)]).astype(int)
        self._first_rows = [
            np.concatenate([[0], np.cumsum([found.row_group(n).num_rows for n in range(found.num_row_groups)])])
            for found in metadata
        ]
        self._blocks = BlockCache(self._read_block, self.block_bytes, most_bytes)
        self._names = sorted(self.features)
        self.types = [dtype for name in self._names for dtype in _raw_types(self.features[name])]

    def read(self, files, records):
        """As in IndexedFiles, but the parts are a pyarrow.Table for each file."""
        return file_by_file(self._read, files, records)

    def _read(self, file, records):
        check_unchanged(self.paths[file], self._stamps[file])
        firsts = self._first_rows[file]
        groups = np.searchsorted(firsts, records, 'right') - 1
        parts = []
        for group in np.unique(groups):
            table = self._blocks.get(int(self._first_block[file] + group))
            parts.append(table.take(pyarrow.array(records[groups == group] - firsts[group])))
        table = pyarrow.concat_tables(parts)
        return table, self._bad_rows(table)

    def where(self, file: int, record: int) -> str:
        return f'{self.paths[file]}, row {record}'

    def load_ahead(self, blocks) -> None:
        self._blocks.load_ahead(blocks)

    def raw(self, parts, inverse):
        """The columns as arrays; two for each feature of varying length: the values of all rows, and how many each
        row has."""
        table = pyarrow.concat_tables(parts).take(pyarrow.array(inverse))
        return [array for name in self._names for array in _arrays(table[name], self.features[name])]

    def parse(self, raw) -> dict:
        raw, parsed = iter(raw), {}
        for name in self._names:
            feature = self.features[name]
            if isinstance(feature, tf.io.FixedLenFeature):
                parsed[name] = tf.reshape(next(raw), [-1, *feature.shape])
                continue
            ragged = tf.RaggedTensor.from_row_lengths(next(raw), next(raw), validate=False)
            parsed[name] = ragged.to_sparse() if isinstance(feature, tf.io.VarLenFeature) else ragged
        return parsed

    def problem(self, raw) -> None:
        """Nothing is left to fail in `parse`."""

    def _bad_rows(self, table) -> dict:
        bad = {}
        for name, feature in self.features.items():
            if not isinstance(feature, tf.io.FixedLenFeature):
                continue
            column = table[name]
            if feature.default_value is None and column.null_count:
                rows = np.flatnonzero(column.is_null().to_numpy())
                bad.update({int(row): f'{name} is missing' for row in rows})
            if _is_list(column.type):
                wanted = int(np.prod(feature.shape))
                lengths = pyarrow.compute.list_value_length(column).fill_null(wanted).to_numpy()
                for row in np.flatnonzero(lengths != wanted):
                    bad[int(row)] = f'{name} has {lengths[row]} values, not {wanted}'
        return bad

    def _read_block(self, block):
        file = int(np.searchsorted(self._first_block, block, 'right')) - 1
        group = int(block - self._first_block[file])
        try:
            with pyarrow.parquet.ParquetFile(_readable(self.paths[file]), page_checksum_verification=True) as opened:
                table = opened.read_row_group(group, columns=self._names, use_threads=False)
            return pyarrow.table(
                {name: _cast(table[name], self.features[name]) for name in self._names}
            ).combine_chunks()
        except (pyarrow.ArrowException, OSError) as error:
            rows = self._first_rows[file]
            raise BadExample(
                f'{self.paths[file]}, rows {rows[group]} to {rows[group + 1] - 1} (row group {group}): cannot be read '
                f'({" ".join(str(error).split())[:200]}); copy the file again, or leave it out'
            ) from error


def _readable(path):
    """What pyarrow reads a file from: its path, or an object that fetches the columns asked for."""
    return RemoteFile(path) if isinstance(path, RemotePath) else path


def _all_metadata(paths):
    if not isinstance(paths[0], RemotePath):
        return [_metadata(path) for path in paths]
    return [future.result() for future in [threads.submit(_metadata, path) for path in paths]]


def _metadata(path):
    try:
        return pyarrow.parquet.read_metadata(_readable(path))
    except (pyarrow.ArrowException, OSError) as error:
        raise BadExample(
            f'{path}: is damaged, cut short, or no Parquet file ({" ".join(str(error).split())[:200]}); '
            'copy it again, or leave it out'
        ) from error


def _is_list(kind) -> bool:
    return pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind) or pyarrow.types.is_fixed_size_list(kind)


def _value_type(kind):
    """The type of a column's values: of the items of a list, and of what a dictionary encodes."""
    while True:
        if _is_list(kind) or pyarrow.types.is_dictionary(kind):
            kind = kind.value_type
        else:
            return kind


def _dtype_of(kind):
    """TensorFlow's type for the values of a column; None where it has none."""
    of_text = pyarrow.types.is_string, pyarrow.types.is_large_string, pyarrow.types.is_binary
    if any(is_kind(kind) for is_kind in (*of_text, pyarrow.types.is_large_binary)):
        return tf.string
    if pyarrow.types.is_integer(kind) or pyarrow.types.is_boolean(kind):
        return tf.int64
    return tf.float32 if pyarrow.types.is_floating(kind) else None


def _features_of(schema, path) -> dict:
    features = {}
    for field in schema:
        dtype = _dtype_of(_value_type(field.type))
        if dtype is None:
            raise DatasetError(f'{path}: column {field.name!r} is {field.type}, which is no tensor; name the features')
        if pyarrow.types.is_fixed_size_list(field.type):
            features[field.name] = tf.io.FixedLenFeature([field.type.list_size], dtype)
        else:
            features[field.name] = (
                tf.io.VarLenFeature(dtype) if _is_list(field.type) else tf.io.FixedLenFeature([], dtype)
            )
    return features


def _check_columns(path, schema, features) -> None:
    for name, feature in features.items():
        if name not in schema.names:
            raise DatasetError(f'{path}: has no column {name!r}; its columns are {", ".join(schema.names)}')
        kind = schema.field(name).type
        if pyarrow.types.is_null(kind):
            continue  # no row has a value
        found = _dtype_of(_value_type(kind))
        fits = found == feature.dtype if tf.string in (found, feature.dtype) else found is not None
        varies = not isinstance(feature, tf.io.FixedLenFeature)
        if not fits or (not _is_list(kind) and (varies or list(feature.shape) not in ([], [1]))):
            raise DatasetError(f'{path}: column {name!r} is {kind}, which cannot be read as {feature}')


def _cast(column, feature):
    """A column whose values have the feature's type, and its default in place of nulls."""
    value_type = (
        pyarrow.large_binary()
        if feature.dtype == tf.string
        else pyarrow.from_numpy_dtype(np.bool_ if feature.dtype == tf.bool else feature.dtype.as_numpy_dtype)
    )
    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not _is_list(column.type):
        column = column.cast(value_type, safe=feature.dtype.is_integer)
        default = getattr(feature, 'default_value', None)
        return column if default is None else column.fill_null(_scalar(default, value_type))
    return column.cast(pyarrow.large_list(value_type), safe=feature.dtype.is_integer)


def _scalar(default, value_type):
    value = np.reshape(default, [-1])[0]
    return pyarrow.scalar(
        tf.compat.as_bytes(value) if pyarrow.types.is_large_binary(value_type) else value.item(), value_type
    )


def _raw_types(feature):
    if isinstance(feature, tf.io.FixedLenFeature):
        return [feature.dtype]
    lengths = tf.int64 if isinstance(feature, tf.io.VarLenFeature) else feature.row_splits_dtype
    return [feature.dtype, lengths]


def _arrays(column, feature):
    column = column.combine_chunks() if isinstance(column, pyarrow.ChunkedArray) else column
    if not _is_list(column.type):
        return [_numpy(column, feature)]
    values = [_numpy(column.flatten(), feature)]
    if isinstance(feature, tf.io.FixedLenFeature):
        return values
    lengths = pyarrow.compute.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    return [*values, lengths.astype(_raw_types(feature)[1].as_numpy_dtype)]


def _numpy(array, feature):
    return np.asarray(
        array.to_numpy(zero_copy_only=False), object if feature.dtype == tf.string else feature.dtype.as_numpy_dtype
    )
