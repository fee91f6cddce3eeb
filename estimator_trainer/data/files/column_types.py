"""Decides which types of columns can become which features, and refuses others before training begins."""

import functools
from typing import Any, TypeAlias

import numpy as np
import pyarrow
import tensorflow as tf

from estimator_trainer.data.files.spec import Feature
from estimator_trainer.data.files.units import DECIMALS, Unit
from estimator_trainer.errors import UsageError

# pyarrow has no types for type checkers.
Schema: TypeAlias = Any  # pyarrow.Schema
ArrowType: TypeAlias = Any  # pyarrow.DataType

_is = pyarrow.types
_INTEGERS = (tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64)
_FLOATS = (tf.float32, tf.float64)
_KINDS = (*_INTEGERS, *_FLOATS, tf.bool, tf.string)


def features_of(schema: Schema, path: str) -> dict[str, Feature]:
    """A feature for each column of a schema, by name. `path` is the file, for messages.

    Raises:
        UsageError: a column can be no feature. The message names the column and the cure.
    """
    features = {}
    for field in schema:
        dtype = _natural(value_type(field.type))
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


def check_feature(name: str, feature: Feature) -> None:
    """Raises UsageError if no column can become the feature."""
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
        for value in np.reshape(feature.default_value, [-1]).tolist():
            if not _holds(feature.dtype, value):
                raise UsageError(f'feature {name!r}: its default_value {value!r} is none of {feature.dtype.name}')


def _holds(dtype: tf.DType, value: Any) -> bool:
    """Whether a type has this value, or for floating point one close to it."""
    if dtype == tf.string:
        return isinstance(value, (str, bytes))
    if not isinstance(value, (bool, int, float)):
        return False
    if dtype.is_integer:
        return bool(value == value // 1 and dtype.min <= value <= dtype.max)
    return value in (0, 1) if dtype.is_bool else True


def check_column(path: str, schema: Schema, name: str, feature: Feature) -> None:
    """Raises UsageError if the column is missing, occurs twice, or has a type that cannot become the feature's."""
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
    elif not _fits(value_type(kind), feature.dtype):
        natural = _natural(value_type(kind))
        why = f'which can be read as {natural.name}' if natural else _no_feature(kind)
    elif not is_list(kind) and isinstance(feature, tf.io.FixedLenFeature) and number(feature) != 1:
        why = 'which has one value in each row'
    if why:
        raise UsageError(f'{path}: column {name!r} is {kind}, {why}, and cannot be read as {feature}')


def _twice(path: str, schema: Schema, name: str) -> UsageError:
    return UsageError(f'{path}: has {schema.names.count(name)} columns {name!r}; write it with different names')


def is_list(kind: ArrowType) -> bool:
    """Whether a column of this type has lists."""
    return _is.is_list(kind) or _is.is_large_list(kind) or _is.is_fixed_size_list(kind)


def _depth(kind: ArrowType) -> int:
    """How many lists are within each other."""
    return 1 + _depth(kind.value_type) if is_list(kind) else 0


def value_type(kind: ArrowType) -> ArrowType:
    """The type of a column's values: of the items of a list, or of the values that a dictionary encodes."""
    return value_type(kind.value_type) if is_list(kind) or _is.is_dictionary(kind) else kind


def _is_text(kind: ArrowType) -> bool:
    views = [getattr(_is, name) for name in ('is_string_view', 'is_binary_view') if hasattr(_is, name)]
    known = (_is.is_string, _is.is_large_string, _is.is_binary, _is.is_large_binary, _is.is_fixed_size_binary, *views)
    return any(is_kind(kind) for is_kind in known)


def is_time(kind: ArrowType) -> bool:
    """Whether a column of this type has dates, times, timestamps or durations."""
    return _is.is_temporal(kind) and not _is.is_interval(kind)


def has_nanoseconds(kind: ArrowType) -> bool:
    """Whether a column of this type has timestamps in nanoseconds."""
    value = value_type(kind)
    return _is.is_timestamp(value) and value.unit == 'ns'


@functools.lru_cache(maxsize=4096)  # all files have the same few types
def unit(kind: ArrowType, dtype: tf.DType) -> Unit | None:
    """The unit of a column of this type that is read as `dtype`; None if no row of the column has a value."""
    value = value_type(kind)
    if _is.is_null(value):
        return None
    name = ''
    if _is.is_timestamp(value):  # those with a time zone count from 1970 in UTC, whatever zone it is
        name = f'timestamp[{value.unit}, UTC]' if value.tz else f'timestamp[{value.unit}]'
    elif is_time(value):
        name = str(value)
    elif _is.is_decimal(value) and dtype == tf.string:
        name = f'{DECIMALS}{value.scale}'
    return Unit(name, str(kind))


def _natural(kind: ArrowType) -> tf.DType | None:
    """The type of the feature that a column becomes if no feature is given; None if several or none are possible."""
    if _is_text(kind):
        return tf.string
    if _is.is_integer(kind) or _is.is_boolean(kind):
        return tf.int64
    if _is.is_floating(kind):
        return tf.float64 if _is.is_float64(kind) else tf.float32
    return None


def _fits(kind: ArrowType, dtype: tf.DType) -> bool:
    if _is_text(kind) or _is.is_null(kind):
        return dtype == tf.string or _is.is_null(kind)
    if _is.is_decimal(kind):
        return dtype != tf.bool
    if is_time(kind):
        return dtype == tf.int64
    return dtype != tf.string and (_is.is_integer(kind) or _is.is_boolean(kind) or _is.is_floating(kind))


def _no_feature(kind: ArrowType) -> str:
    """Why a column can be no feature, as the end of a sentence."""
    if _depth(kind) > 1:
        return 'and only lists of values are read'
    kind = value_type(kind)
    if is_time(kind):
        return 'which tf.int64 reads as a number of its unit'
    if _is.is_decimal(kind):
        return 'which tf.float64 reads rounded, and tf.string as text'
    return 'which no feature reads'


def number(feature: Feature) -> int:
    """The number of values of a FixedLenFeature."""
    return int(np.prod(feature.shape))


def lengths_type(feature: Feature) -> tf.DType:
    """The type of the numbers of values in each row of a VarLenFeature or RaggedFeature."""
    return tf.int64 if isinstance(feature, tf.io.VarLenFeature) else feature.row_splits_dtype


def arrow_type(dtype: tf.DType) -> ArrowType:
    """The type of a column with values of this type."""
    return pyarrow.large_binary() if dtype == tf.string else pyarrow.from_numpy_dtype(dtype.as_numpy_dtype)
