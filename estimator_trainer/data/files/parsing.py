"""Turns records into tensors, a whole batch at a time: serialized tf.Examples, and rows of CSV."""

import contextlib
import csv
import io

import numpy as np
import tensorflow as tf

from estimator_trainer.data.files import borders, index
from estimator_trainer.data.files.spec import FileSpec
from estimator_trainer.errors import DatasetError

_CSV_TYPES = (tf.float32, tf.float64, tf.int32, tf.int64, tf.string)


class ExampleParser:
    """Parses serialized tf.Examples.

    Attributes:
        types: of the raw columns.
        features: name -> feature.
    """

    types = [tf.string]

    def __init__(self, spec: FileSpec):
        if spec.features is None:
            raise DatasetError('FileSpec.features is None, which only Parquet files allow: name the features')
        self.features = with_plain_defaults(spec.features)

    def raw(self, parts, inverse):
        """Raw columns: the records of several files, put into their order."""
        return [np.concatenate(parts)[inverse] if len(parts) > 1 else parts[0][inverse]]

    def parse(self, raw) -> dict:
        return tf.io.parse_example(raw[0], self.features)

    def problem(self, raw) -> str | None:
        """Why these raw columns cannot be parsed, or None."""
        try:
            with _at_once():
                self.parse([tf.constant(column) for column in raw])
        except (tf.errors.OpError, UnicodeDecodeError) as error:  # a message may quote the record's bytes
            return _reason(error)
        return None


def _at_once():
    """A context manager: operations within it run at once, whatever graph is being built or run."""
    if tf.executing_eagerly():
        return contextlib.nullcontext()
    from estimator_trainer.compat.patches import eager_mode  # compat chooses Keras 2, which a program may not want

    return eager_mode.at_once()


class CsvParser(ExampleParser):
    """Parses rows of CSV."""

    def __init__(self, spec: FileSpec, paths):
        super().__init__(spec)
        self._delimiter = spec.delimiter
        columns = list(spec.columns) or _columns_of(paths, spec.delimiter)
        missing = [name for name in self.features if name not in columns]
        if missing:
            raise DatasetError(
                f'{paths[0]}: has no column {missing[0]!r}; its columns are {", ".join(columns)}. '
                'FileSpec.columns names those of files without a header line'
            )
        for name, feature in self.features.items():
            if not isinstance(feature, tf.io.FixedLenFeature) or list(feature.shape) or feature.dtype not in _CSV_TYPES:
                raise DatasetError(
                    f'feature {name!r}: a CSV column gives a tf.io.FixedLenFeature([], dtype) of float, int or string'
                )
        self._columns = columns
        self._defaults = [
            _default_of(self.features[name]) if name in self.features else np.array([b''], object)
            for name in columns  # all of them: a row with too many columns is an error
        ]

    def parse(self, raw) -> dict:
        values = tf.io.decode_csv(raw[0], self._defaults, field_delim=self._delimiter)
        return {name: value for name, value in zip(self._columns, values) if name in self.features}


def with_plain_defaults(features) -> dict:
    """The same features, with arrays of NumPy in place of tensors: they are used in graphs of later."""
    return {
        name: feature._replace(default_value=tf.get_static_value(feature.default_value))
        if tf.is_tensor(getattr(feature, 'default_value', None))
        else feature
        for name, feature in features.items()
    }


def _default_of(feature) -> np.ndarray:
    given = [] if feature.default_value is None else np.reshape(feature.default_value, [1]).tolist()
    if feature.dtype == tf.string:
        return np.array([tf.compat.as_bytes(value) for value in given], object)
    return np.array(given, feature.dtype.as_numpy_dtype)


def _columns_of(paths, delimiter) -> list[str]:
    """The names in the first line of each file, which are the same in all."""
    headers = []
    for path in paths:
        line = borders.header_of(index.beginning(path, 'csv')).decode('utf-8', 'replace')
        headers.append(next(csv.reader(io.StringIO(line), delimiter=delimiter), []))
        if headers[-1] != headers[0]:
            raise DatasetError(
                f'{path}: its first line names the columns {", ".join(headers[-1])}, '
                f'and that of {paths[0]} {", ".join(headers[0])}'
            )
    return headers[0]


def _reason(error) -> str:
    """TensorFlow's message, without what tells of the operation alone and without the record's bytes."""
    text = error.message if isinstance(error, tf.errors.OpError) else error.object.decode('utf-8', 'replace')
    text = ' '.join(text.split()).partition('}} ')[2] or ' '.join(text.split())
    text = text.partition(' [Op:')[0].partition(', value:')[0]
    return text.removeprefix('Name: <unknown>, ')[:300]
