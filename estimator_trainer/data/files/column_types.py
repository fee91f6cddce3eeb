"""Which type of column can become which feature: refused at the start, by name."""

import numpy as np
import pyarrow
import tensorflow as tf

from estimator_trainer.errors import UsageError

_is = pyarrow.types
_INTEGERS = (tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64)
_FLOATS = (tf.float32, tf.float64)
_KINDS = (*_INTEGERS, *_FLOATS, tf.bool, tf.string)


def features_of(schema, path) -> dict:
    """A feature for each column.

    Raises:
        UsageError: there is no such one for a column; names it and the cure.
    """
    features = {}
    for field in schema:
        dtype = _natural(_value_type(field.type))
        if dtype is None or _depth(field.type) > 1:
            raise UsageError(
                f'{path}: column {field.name!r} is {field.type}, {_no_feature(field.type)}; name in '
                'FileSpec.features those that the model takes'
            )
        if schema.names.count(field.name) > 1:
            raise _twice(path, schema, field.name)
        if _is.is_fixed_size_list(field.type):
            features[field.name] = tf.io.FixedLenFeature([field.type.list_size], dtype)
        elif is_list(field.type):
            features[field.name] = tf.io.VarLenFeature(dtype)
        else:
            features[field.name] = tf.io.FixedLenFeature([], dtype)
    return features


def check_feature(name: str, feature) -> None:
    """Raises UsageError: no column can give it."""
    kinds = (tf.io.FixedLenFeature, tf.io.VarLenFeature, tf.io.RaggedFeature)
    if not isinstance(feature, kinds):
        raise UsageError(
            f'feature {name!r}: is a {type(feature).__name__}; use FixedLenFeature, VarLenFeature or RaggedFeature'
        )
    if feature.dtype not in _KINDS:
        raise UsageError(
            f'feature {name!r}: no column is read as {feature.dtype.name}; use {", ".join(k.name for k in _KINDS)}'
        )
    if isinstance(feature, tf.io.RaggedFeature) and (feature.value_key not in (None, name) or feature.partitions):
        raise UsageError(f'feature {name!r}: a RaggedFeature of a column has no value_key and no partitions')
    if isinstance(feature, tf.io.FixedLenFeature) and not number(feature):
        raise UsageError(f'feature {name!r}: its shape {list(feature.shape)} holds no value; leave it out')
    if isinstance(feature, tf.io.FixedLenFeature) and feature.default_value is not None:
        if np.size(feature.default_value) != number(feature):
            raise UsageError(
                f'feature {name!r}: its default_value has {np.size(feature.default_value)} values, and its shape '
                f'{list(feature.shape)} has {number(feature)}'
            )


def check_column(path, schema, name: str, feature) -> None:
    """Raises UsageError: the column is not there, is there twice, or its type cannot become that of the feature."""
    if name not in schema.names:
        raise UsageError(f'{path}: has no column {name!r}; its columns are {", ".join(schema.names)}')
    if schema.names.count(name) > 1:
        raise _twice(path, schema, name)
    kind = schema.field(name).type
    if _is.is_null(kind):
        return  # no row has a value
    why = ''
    if _depth(kind) > 1:
        why = _no_feature(kind)
    elif not _fits(_value_type(kind), feature.dtype):
        natural = _natural(_value_type(kind))
        why = f'which can be read as {natural.name}' if natural else _no_feature(kind)
    elif not is_list(kind) and isinstance(feature, tf.io.FixedLenFeature) and number(feature) != 1:
        why = 'which has one value in each row'
    if why:
        raise UsageError(f'{path}: column {name!r} is {kind}, {why}, and cannot be read as {feature}')


def _twice(path, schema, name) -> UsageError:
    return UsageError(f'{path}: has {schema.names.count(name)} columns {name!r}; write it with different names')


def is_list(kind) -> bool:
    return _is.is_list(kind) or _is.is_large_list(kind) or _is.is_fixed_size_list(kind)


def _depth(kind) -> int:
    return 1 + _depth(kind.value_type) if is_list(kind) else 0


def _value_type(kind):
    """The type of a column's values: of the items of a list, and of what a dictionary encodes."""
    return _value_type(kind.value_type) if is_list(kind) or _is.is_dictionary(kind) else kind


def _is_text(kind) -> bool:
    views = [getattr(_is, name) for name in ('is_string_view', 'is_binary_view') if hasattr(_is, name)]
    known = (_is.is_string, _is.is_large_string, _is.is_binary, _is.is_large_binary, _is.is_fixed_size_binary, *views)
    return any(is_kind(kind) for is_kind in known)


def is_time(kind) -> bool:
    return _is.is_temporal(kind) and not _is.is_interval(kind)


def _natural(kind):
    """The type that a column has by itself; None where several are possible, or none is."""
    if _is_text(kind):
        return tf.string
    if _is.is_integer(kind) or _is.is_boolean(kind):
        return tf.int64
    if _is.is_floating(kind):
        return tf.float64 if _is.is_float64(kind) else tf.float32
    return None


def _fits(kind, dtype) -> bool:
    if _is_text(kind) or _is.is_null(kind):
        return dtype == tf.string or _is.is_null(kind)
    if _is.is_decimal(kind):
        return dtype != tf.bool
    if is_time(kind):
        return dtype == tf.int64
    return dtype != tf.string and (_is.is_integer(kind) or _is.is_boolean(kind) or _is.is_floating(kind))


def _no_feature(kind) -> str:
    if _depth(kind) > 1:
        return 'and only lists of values are read'
    kind = _value_type(kind)
    if is_time(kind):
        return 'which tf.int64 reads as a number of its unit'
    if _is.is_decimal(kind):
        return 'which tf.float64 reads rounded, and tf.string as text'
    return 'which no feature reads'


def number(feature) -> int:
    return int(np.prod(feature.shape))


def lengths_type(feature):
    return tf.int64 if isinstance(feature, tf.io.VarLenFeature) else feature.row_splits_dtype


def arrow_type(dtype):
    return pyarrow.large_binary() if dtype == tf.string else pyarrow.from_numpy_dtype(dtype.as_numpy_dtype)
