"""The examples of the files, as the signature of a model takes them, with their keys.

A file holds a value in the model's own type or in one that holds more. No value is changed on the way back; only
floating-point numbers are rounded, to the model's own type.
"""

import dataclasses
from typing import Any

import numpy as np
import pyarrow.parquet
import tensorflow as tf
from google.protobuf.message import DecodeError

from estimator_trainer.data.files import FileSpec, column_types, contents, open_source, units
from estimator_trainer.data.files.spec import KNOWN_FORMATS
from estimator_trainer.errors import BadExample, UsageError
from estimator_trainer.tools.predict.predict_plan import PredictPlan
from estimator_trainer.tools.predict.signature import Model

_FIELDS = {tf.string: 'bytes_list', tf.float32: 'float_list', tf.int64: 'int64_list'}  # all that a tf.Example knows
_KEY_KINDS = {'bytes_list': tf.string, 'int64_list': tf.int64}
HELD = {  # the types that the files of a format can be read as
    'tfrecord': (*_FIELDS,),
    'array_record': (*_FIELDS,),
    'csv': (*_FIELDS, tf.float64, tf.int32),
    'parquet': (*_FIELDS, tf.float64, tf.int8, tf.int16, tf.int32, tf.uint8, tf.uint16, tf.uint32, tf.uint64),
}


@dataclasses.dataclass(frozen=True)
class SignatureSpec(FileSpec):
    """What an example holds for a signature, whose user has written no FileSpec.

    Attributes:
        signature: its name.
    """

    signature: str = ''

    @property
    def words(self) -> str:
        return f'the signature {self.signature}'

    def cure_of_contradiction(self, name: str, absent: bool = False) -> str:
        if name == self.key:
            return f'--key={name} has to be a feature of each example, of one type.'
        takes = 'takes it under this name' if absent else 'takes it so'
        return f'The signature {self.signature} {takes}: write records that fit it, or choose another --signature.'

    def cure_of_no_column(self, name: str = '') -> str:
        if name and name == self.key:
            return f'--key={name} has to be one of them'
        kinds = {name: feature for name, feature in self.features.items() if name != self.key}
        said = f'The first line of a CSV file names its columns, and the signature {self.signature} takes '
        said += f'{", ".join(kinds)}: write such a line'
        if [feature.dtype for feature in kinds.values()] == [tf.string]:
            said += f'. If {next(iter(kinds))} is a whole line of text, each has to be one field, in quotes'
        return said

    def cure_of_delimiter(self, delimiter: str) -> str:
        return 'write it with commas, or as a .tsv file with tabs'

    def cure_of_empty_field(self, name: str) -> str:
        if name == self.key:
            return f'and --key={name} needs a value in each row'
        said = (
            f'and the signature {self.signature} has no default for it: write a value, or export features with defaults'
        )
        return said + '. Parquet files can hold an empty text' * (self.features[name].dtype == tf.string)


class Examples:
    """All examples of the files of a plan.

    Args:
        plan: names the files and the key.
        model: says which features it takes.
        index_dir: where an index of records is written if it cannot be beside its file.

    Attributes:
        number: of all examples.

    Raises (on creation):
        UsageError: the files do not hold what the signature takes, or with another unit, or no such key.
        DatasetError: they hold no example, or cannot be read, or one is not what it was when the plan was made.
        BadExample: a file is damaged.
    """

    def __init__(self, plan: PredictPlan, model: Model, index_dir: str):
        self._plan, self._model, self._index_dir = plan, model, index_dir
        has_serialized = KNOWN_FORMATS[plan.file_format].has_examples
        if model.takes_serialized and not has_serialized and not model.features:
            raise UsageError(
                f'the signature {model.name} takes serialized examples and does not say which features it reads, so '
                'none can be made from CSV or Parquet files. Give TFRecord or ArrayRecord files.'
            )
        self._passes_on = model.takes_serialized and has_serialized  # what the files hold, byte for byte
        held = {} if self._passes_on else {name: self._held(name, model.features[name]) for name in model.features}
        self._source = self._open(held)
        units.refuse_other_than_trained(
            plan.units,
            {name: column for name, column in self._source.units.items() if name in model.features},
            plan.export.rpartition('/export/')[0] or plan.export,
            'or name the model by --export, which compares no units',
        )
        self._keys = self._source  # of another type than the model's: read beside it
        if plan.key:
            key = tf.io.FixedLenFeature([], self._kind_of_key(held))
            if held.get(plan.key, key) == key:
                self._source = self._keys = self._open({**held, plan.key: key})
            else:
                self._keys = self._open({plan.key: key})
        self.number, self.where = self._source.num_examples, self._source.where

    def read(self, rows: range) -> tuple[dict[str, tf.Tensor], np.ndarray | None]:
        """What the model takes for some rows, and their keys; None without a key.

        Raises:
            BadExample: one of them cannot be used.
            DatasetError: a file cannot be read, or has changed.
        """
        numbers = tf.range(rows.start, rows.stop, dtype=tf.int64)
        try:
            raw = self._source.raw(numbers)
            columns = self._source.parse(raw) if self._source.features else {}
            of_keys = columns if self._keys is self._source else self._keys.parse(self._keys.raw(numbers))
        except (tf.errors.OpError, UnicodeDecodeError) as error:  # a message may quote bytes
            found = self._source.failure() or self._keys.failure()
            if found is None:
                raise
            if self._passes_on:  # nothing but the key is parsed
                text = f'{found}'.rstrip('.')
                found = BadExample(
                    f'{text}. Each example needs the key of --key={self._plan.key}, of one type; mend it'
                )
            raise found from error
        keys = of_keys[self._plan.key].numpy() if self._plan.key else None
        if self._passes_on:
            return {'examples': raw[0]}, keys
        taken = {name: columns[name] for name in self._model.features}
        if self._model.takes_serialized:
            return {'examples': tf.constant(serialize(taken))}, keys
        return {name: self._converted(name, column, rows) for name, column in taken.items()}, keys

    def _open(self, features):
        plan = self._plan
        paths = [plan.path(name) for name, *_ in plan.files]
        key = plan.key if plan.key in features else ''
        spec = SignatureSpec(features=features, key=key, signature=self._model.name)
        return open_source(
            paths, spec, file_format=plan.file_format, index_dir=self._index_dir, in_order=True, stamps=plan.stamps
        )

    def _held(self, name: str, feature: Any) -> Any:
        """The feature with the type in which the files hold it."""
        if not isinstance(feature, tf.io.FixedLenFeature):
            return feature
        dtype = feature.dtype
        if dtype not in HELD[self._plan.file_format]:
            if not (dtype.is_integer or dtype.is_bool or dtype.is_floating):
                raise UsageError(
                    f'the model takes {name} as {dtype.name}, which no file holds; choose another --signature.'
                )
            dtype = tf.float32 if dtype.is_floating else tf.int64
        return feature._replace(dtype=dtype)

    def _converted(self, name: str, column: tf.Tensor, rows: range) -> tf.Tensor:
        """A column of some rows in the type that the model takes."""
        dtype = self._model.features[name].dtype
        if column.dtype == dtype:
            return column
        values = column.numpy()
        if dtype.is_bool:
            fit = np.isin(values, (0, 1))
        elif dtype.is_integer:
            limits = np.iinfo(dtype.as_numpy_dtype)
            fit = (values >= max(limits.min, -(2**63))) & (values <= min(limits.max, 2**63 - 1))
        else:
            with np.errstate(over='ignore'):
                fit = ~np.isfinite(values) | np.isfinite(values.astype(dtype.as_numpy_dtype).astype(np.float32))
        if not fit.all():
            row, *_ = place = tuple(np.argwhere(~fit)[0])
            raise BadExample(
                f'{self.where(rows[row])}: {name} is {values[place]}, and the model takes it as {dtype.name}; mend it'
            )
        return tf.cast(column, dtype)

    def _kind_of_key(self, held) -> tf.DType:
        plan = self._plan
        if plan.file_format == 'csv':
            held_as = held[plan.key].dtype if plan.key in held else tf.string
            return held_as if held_as.is_integer else tf.string
        if plan.file_format == 'parquet':
            path = plan.path(plan.files[0][0])
            schema = pyarrow.parquet.read_schema(contents.for_pyarrow(path))
            if plan.key not in schema.names:
                raise UsageError(f'--key={plan.key}: {path} has the columns {", ".join(schema.names)}.')
            kind = column_types.value_type(schema.field(plan.key).type)
            if pyarrow.types.is_uint64(kind):
                return tf.uint64
            return tf.int64 if pyarrow.types.is_integer(kind) else tf.string
        if not KNOWN_FORMATS[plan.file_format].has_examples:
            raise NotImplementedError(f'nothing says which type a key of {plan.file_format} files has')
        serialized = self._source.serialized(tf.constant([0], tf.int64)).numpy()[0]
        try:
            features = tf.train.Example.FromString(serialized).features.feature
        except DecodeError as error:
            raise BadExample(f'{self._source.where(0)}: is no tf.Example, so it has no key; mend it') from error
        kind = features[plan.key].WhichOneof('kind') if plan.key in features else None
        if kind not in _KEY_KINDS:
            has = 'floating-point numbers' if kind else f'the features {", ".join(sorted(features)) or "none"}'
            raise UsageError(
                f'--key={plan.key}: a key is a feature with one string or whole number; {self._source.where(0)} has '
                f'{has}.'
            )
        return _KEY_KINDS[kind]


def serialize(columns) -> list[bytes]:
    """Serialized tf.Examples of a batch. `columns`: name -> Tensor or SparseTensor [rows, ...]."""
    lists = [
        tf.RaggedTensor.from_sparse(column).to_list()
        if isinstance(column, tf.SparseTensor)
        else column.numpy().reshape(column.shape[0], -1).tolist()
        for column in columns.values()
    ]
    examples = []
    for row in zip(*lists):
        example = tf.train.Example()
        for (name, column), values in zip(columns.items(), row):
            getattr(example.features.feature[name], _FIELDS[column.dtype]).value.extend(values)
        examples.append(example.SerializeToString())
    return examples
