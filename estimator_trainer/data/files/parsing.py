"""Turns records into tensors, a whole batch at a time: serialized tf.Examples."""

import contextlib

import numpy as np
import tensorflow as tf

from estimator_trainer.data.files.spec import FileSpec
from estimator_trainer.errors import UsageError

_TYPES = (tf.float32, tf.int64, tf.string)


class ExampleParser:
    """Parses serialized tf.Examples.

    Attributes:
        types: of the raw columns.
        features: name -> feature.
    """

    types = [tf.string]

    def __init__(self, spec: FileSpec):
        if spec.features is None:
            raise UsageError('FileSpec.features is None, which only Parquet files allow: name the features')
        self.features = with_plain_defaults(spec.features)
        for name, feature in self.features.items():
            self._check_feature(name, feature)

    def _check_feature(self, name, feature) -> None:
        if feature.dtype not in _TYPES:
            types = ', '.join(dtype.name for dtype in _TYPES)
            raise UsageError(f'feature {name!r}: a tf.Example holds no {feature.dtype.name}; use {types}')

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


def with_plain_defaults(features) -> dict:
    """The same features, with arrays of NumPy in place of tensors: they are used in graphs of later."""
    return {
        name: feature._replace(default_value=tf.get_static_value(feature.default_value))
        if tf.is_tensor(getattr(feature, 'default_value', None))
        else feature
        for name, feature in features.items()
    }


def message(error) -> str:
    """What an error of TensorFlow says. One that quotes bytes which are no UTF-8 comes as a UnicodeDecodeError."""
    if isinstance(error, UnicodeDecodeError):
        return error.object.decode('utf-8', 'replace')
    return getattr(error, 'message', '') or str(error)


def _reason(error) -> str:
    """TensorFlow's message, without what tells of the operation alone and without the record's bytes."""
    text = message(error)
    text = ' '.join(text.split()).partition('}} ')[2] or ' '.join(text.split())
    text = text.partition(' [Op:')[0].partition(', value:')[0]
    return text.removeprefix('Name: <unknown>, ')[:300]
