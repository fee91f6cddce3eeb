"""The examples of the files, as the signature of a model takes them, with their keys."""

import dataclasses
import math

import numpy as np
import tensorflow as tf

from estimator_trainer.data.files import FileSpec, open_source
from estimator_trainer.errors import BadExample, UsageError
from estimator_trainer.tools.predict import types
from estimator_trainer.tools.predict.predict_plan import PredictPlan
from estimator_trainer.tools.predict.signature import Model

_KEY_KINDS = {'bytes_list': tf.string, 'int64_list': tf.int64}
_FIELDS = {tf.string: 'bytes_list', tf.float32: 'float_list', tf.int64: 'int64_list'}


@dataclasses.dataclass(frozen=True)
class SignatureSpec(FileSpec):
    """What an example holds for a signature, whose user has written no FileSpec.

    Attributes:
        signature: its name.
    """

    signature: str = ''

    def cure_of_no_column(self, name: str = '') -> str:
        if name and name == self.key:
            return f'--key={name} has to be one of them'
        kinds = {name: feature for name, feature in self.features.items() if name != self.key}
        said = f'The first line of a CSV file names its columns, and the signature {self.signature} takes '
        said += f'{", ".join(kinds)}: write such a line'
        if [feature.dtype for feature in kinds.values()] == [tf.string]:
            said += f'. If {next(iter(kinds))} is a whole line of text, each has to be one field, in quotes'
        return said

    def cure_of_empty_field(self, name: str) -> str:
        if name == self.key:
            return f'and --key={name} needs a value in each row'
        said = f'and the signature {self.signature} has no default for it: write a value'
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
        UsageError: the files do not hold what the signature takes, or no such key.
        DatasetError: they hold no example, or cannot be read.
        BadExample: a file is damaged.
    """

    def __init__(self, plan: PredictPlan, model: Model, index_dir: str):
        self._plan, self._index_dir = plan, index_dir
        self._signature, self._serializes = model.name, model.takes_serialized
        self._has_serialized = plan.file_format in ('tfrecord', 'array_record')
        self._features = dict(model.features)
        if self._serializes and not self._has_serialized and not self._features:
            raise UsageError(
                f'the signature {model.name} takes serialized examples and does not say which features it reads, so '
                'none can be made from CSV or Parquet files. Give TFRecord or ArrayRecord files.'
            )
        in_files = _in_csv if plan.file_format == 'csv' else _in_its_type
        self._held = {name: in_files(name, feature, plan.file_format) for name, feature in self._features.items()}
        self._source = self._open(self._held)
        self.number, self.where = self._source.num_examples, self._source.where
        if plan.key:
            self._key_feature = tf.io.FixedLenFeature([], self._kind_of_key())
            if not self._passes_through:
                self._source = self._open({**self._held, plan.key: self._key_feature})

    @property
    def _passes_through(self) -> bool:
        """Whether the files hold what the model takes, byte for byte."""
        return self._serializes and self._has_serialized

    def read(self, rows: range) -> tuple[dict[str, tf.Tensor], np.ndarray | None]:
        """What the model takes for some rows, and their keys; None without a key.

        Raises:
            BadExample: one of them cannot be used.
            DatasetError: a file cannot be read, or has changed.
        """
        try:
            return self._read(tf.range(rows.start, rows.stop, dtype=tf.int64))
        except (tf.errors.OpError, ValueError) as error:
            found = self._source.failure() or error
            if isinstance(found, BadExample):
                raise found from error
            if isinstance(found, ValueError):  # of serialize
                raise BadExample(f'{self.where(rows.start)}, or one of the {len(rows) - 1} after it: {found}; mend it')
            raise found

    def _read(self, ids):
        key = self._plan.key
        if self._passes_through:
            examples = self._source.serialized(ids)
            return {'examples': examples}, self._keys_in(examples, ids) if key else None
        columns = self._source.batch(ids)
        keys = columns[key].numpy() if key else None
        if self._serializes:
            taken = {name: columns[name] for name in self._features}
            return {'examples': tf.constant(serialize(taken, self._features))}, keys

        def where(row):
            return self.where(int(ids[row]))

        return {
            name: types.converted(name, columns[name], feature.dtype, where) for name, feature in self._features.items()
        }, keys

    def _keys_in(self, examples, ids) -> np.ndarray:
        key, features = self._plan.key, {self._plan.key: self._key_feature}
        try:
            return tf.io.parse_example(examples, features)[key].numpy()
        except tf.errors.InvalidArgumentError:
            for number, example in zip(ids.numpy(), examples):
                try:
                    tf.io.parse_example(example[None], features)
                except tf.errors.InvalidArgumentError as error:
                    raise BadExample(
                        f'{self.where(int(number))}: the key {key} is missing, or is of another type than in the first '
                        'example; mend it'
                    ) from error
            raise

    def _open(self, features):
        plan = self._plan
        paths = [plan.path(name) for name, *_ in plan.files]
        key = plan.key if plan.key in features else ''
        spec = SignatureSpec(features=features, key=key, signature=self._signature)
        return open_source(paths, spec, file_format=plan.file_format, index_dir=self._index_dir)

    def _kind_of_key(self) -> tf.DType:
        plan = self._plan
        if plan.file_format == 'csv':
            return self._held[plan.key].dtype if plan.key in self._held else tf.string
        if plan.file_format == 'parquet':
            return self._kind_in_parquet(plan.path(plan.files[0][0]))
        serialized = self._source.serialized(tf.constant([0], tf.int64)).numpy()[0]
        features = tf.train.Example.FromString(serialized).features.feature
        kind = features[plan.key].WhichOneof('kind') if plan.key in features else None
        if kind not in _KEY_KINDS:
            has = 'floating-point numbers' if kind else f'the features {", ".join(sorted(features)) or "none"}'
            raise UsageError(
                f'--key={plan.key}: a key is a feature with one string or whole number; {self.where(0)} has {has}.'
            )
        return _KEY_KINDS[kind]

    def _kind_in_parquet(self, path) -> tf.DType:
        import pyarrow as pa
        import pyarrow.parquet

        schema = pyarrow.parquet.read_schema(path)
        if self._plan.key not in schema.names:
            raise UsageError(f'--key={self._plan.key}: {path} has the columns {", ".join(schema.names)}.')
        return tf.int64 if pa.types.is_integer(schema.field(self._plan.key).type) else tf.string


def _in_its_type(name, feature, file_format):
    if not isinstance(feature, tf.io.FixedLenFeature):
        return feature
    return feature._replace(dtype=types.in_files(name, feature.dtype, file_format))


def _in_csv(name, feature, file_format):
    """A feature as a column of CSV, which has one value in each row. Where there may be none, it is read as text."""
    if isinstance(feature, tf.io.VarLenFeature):
        return tf.io.FixedLenFeature([], tf.string, '')
    if math.prod(feature.shape) != 1:
        return feature  # open_source says that CSV cannot hold it
    default = None if feature.default_value is None else np.reshape(feature.default_value, [])
    return tf.io.FixedLenFeature([], types.in_files(name, feature.dtype, file_format), default)


def serialize(columns, features) -> list[bytes]:
    """Serialized tf.Examples of a batch.

    Args:
        columns: name -> Tensor, SparseTensor or RaggedTensor [rows, ...].
        features: name -> what the model parses. A text stands for one value of a VarLenFeature, an empty one for none.

    Raises:
        ValueError: a text is no number.
    """
    lists = {name: _lists(column, features[name]) for name, column in columns.items()}
    fields = {name: _FIELDS[features[name].dtype] for name in columns}
    examples = []
    for row in zip(*lists.values()):
        example = tf.train.Example()
        for name, values in zip(lists, row):
            getattr(example.features.feature[name], fields[name]).value.extend(values)
        examples.append(example.SerializeToString())
    return examples


def _lists(column, feature) -> list[list]:
    """The values of each row."""
    if isinstance(column, tf.SparseTensor):
        column = tf.RaggedTensor.from_sparse(column)
    if isinstance(column, tf.RaggedTensor):
        values, splits = column.values.numpy().tolist(), column.row_splits.numpy().tolist()
        return [values[start:stop] for start, stop in zip(splits, splits[1:])]
    array = column.numpy()
    rows = array.reshape(len(array), -1).tolist()
    if isinstance(feature, tf.io.VarLenFeature):
        convert = {tf.string: bytes, tf.int64: int, tf.float32: float}[feature.dtype]
        return [[] if text == b'' else [convert(text)] for (text,) in rows]
    return rows
