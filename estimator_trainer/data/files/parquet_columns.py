"""Turns columns of Arrow into the values of features, without changing any value.

| column | as |
|---|---|
| integers, bools | any number; one that the feature's type cannot hold exactly makes its row a bad example |
| floating-point numbers | float32 and float64, rounded; integers, if they have no fraction |
| decimals | float32 and float64, rounded; integers, if they have no fraction; their text as a string |
| dates, times, timestamps, durations | int64: their unit since 1970-01-01 (UTC) or since midnight |
| strings, bytes | strings |
| dictionaries | what their values are |
| lists of these | VarLenFeature, RaggedFeature, and FixedLenFeature of as many values |

A row of a column without lists is one value. A null row is the default, or has no value if the feature may have none.
No feature can have a null within a list, so it makes its row a bad example. Other values that do not fit do so too.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow
import pyarrow.compute
import tensorflow as tf

from estimator_trainer.data.files import column_types
from estimator_trainer.data.files.spec import Feature

_is = pyarrow.types


class Decoded(NamedTuple):
    """The values of a column.

    Attributes:
        values: the rows; a FixedSizeListArray or a LargeListArray of values if the feature has several in each row. No
            value is null. The values of a bad row mean nothing.
        bad: why a row cannot be used, by its number.
    """

    values: pyarrow.Array
    bad: dict[int, str]


def decoded(column: 'pyarrow.ChunkedArray | pyarrow.Array', name: str, feature: Feature) -> Decoded:
    """The values of a column that column_types.check_column has accepted."""
    chunks = column.chunks if isinstance(column, pyarrow.ChunkedArray) else [column]
    parts: list[pyarrow.Array] = []
    bad: dict[int, str] = {}
    first = 0
    for chunk in chunks or [pyarrow.array([], column.type)]:
        part = _decoded(chunk, name, feature)
        parts.append(part.values)
        bad.update({first + row: why for row, why in part.bad.items()})
        first += len(chunk)
    return Decoded(parts[0] if len(parts) == 1 else pyarrow.concat_arrays(parts), bad)


def outside_of_nanoseconds(column: pyarrow.ChunkedArray, in_seconds: pyarrow.ChunkedArray, name: str) -> dict[int, str]:
    """Finds the timestamps that int64 cannot hold as nanoseconds.

    Args:
        column: a column of timestamps, or of lists of them, in nanoseconds; those that do not fit are other times.
        in_seconds: the same column in seconds, in which all fit.
        name: its name.

    Returns:
        Why a row cannot be used, by its number.
    """
    rows, nanoseconds = _times(column)
    _, seconds = _times(in_seconds)
    return {
        int(rows[place]): f'{name} has {np.datetime64(int(seconds[place]), "s")}, and int64 holds nanoseconds from the '
        'year 1677 to 2262'
        for place in np.flatnonzero(nanoseconds // 10**9 != seconds)
    }


def _times(column: pyarrow.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """The row of each value of a column of timestamps or of lists of them, and the values: int64 [n]. Nulls are 0."""
    array = column.combine_chunks()
    rows = np.arange(len(array))
    if column_types.is_list(array.type):
        lengths = pyarrow.compute.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
        rows, array = np.repeat(rows, lengths), array.flatten()
    return rows, array.view(pyarrow.int64()).fill_null(0).to_numpy(zero_copy_only=False)


def raw_types(feature: Feature) -> list[tf.DType]:
    """The types of the arrays that `arrays` makes for a feature."""
    if isinstance(feature, tf.io.FixedLenFeature):
        return [feature.dtype]
    return [feature.dtype, column_types.lengths_type(feature)]


def in_one(column: pyarrow.ChunkedArray) -> pyarrow.Array:
    """A column of a table whose chunks have been combined, as one array."""
    return column.chunk(0) if column.num_chunks else pyarrow.array([], column.type)


def arrays(values: pyarrow.Array, feature: Feature) -> list[np.ndarray]:
    """The arrays for `tensor`: the values, and the number of values in each row if rows may have different ones."""
    if isinstance(feature, tf.io.FixedLenFeature):
        return [_numpy(values.flatten() if column_types.is_list(values.type) else values, feature.dtype)]
    lengths = pyarrow.compute.list_value_length(values).to_numpy(zero_copy_only=False)
    return [_numpy(values.flatten(), feature.dtype), lengths.astype(column_types.lengths_type(feature).as_numpy_dtype)]


def tensor(raw: Sequence[tf.Tensor], feature: Feature) -> Any:
    """Makes a Tensor, SparseTensor or RaggedTensor from tensors with the values of `arrays`."""
    if isinstance(feature, tf.io.FixedLenFeature):
        return tf.reshape(raw[0], [-1, *feature.shape])
    ragged = tf.RaggedTensor.from_row_lengths(*raw, validate=False)
    return ragged.to_sparse() if isinstance(feature, tf.io.VarLenFeature) else ragged


def _decoded(column: pyarrow.Array, name: str, feature: Feature) -> Decoded:
    if isinstance(column.type, pyarrow.BaseExtensionType):  # such as UUID and JSON
        column = column.storage
    if _is.is_dictionary(column.type):
        column = column.dictionary_decode()
    if _is.is_null(column.type):
        column = pyarrow.nulls(len(column), pyarrow.large_list(column_types.arrow_type(feature.dtype)))
    if not column_types.is_list(column.type):
        return _of_scalars(column, name, feature)
    lengths = pyarrow.compute.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    values, why_not = _values(column.flatten(), feature.dtype, refuse_nulls=True)
    rows = np.repeat(np.arange(len(column)), lengths) if why_not else ()
    bad = {int(rows[place]): f'{name} has in its list {why}' for place, why in why_not.items()}
    if isinstance(feature, tf.io.FixedLenFeature):
        return _of_fixed_lists(column, values, lengths, bad, name, feature)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return Decoded(pyarrow.LargeListArray.from_arrays(offsets, values), bad)


def _of_scalars(column: pyarrow.Array, name: str, feature: Feature) -> Decoded:
    is_valid = column.is_valid().to_numpy(zero_copy_only=False)
    if not isinstance(feature, tf.io.FixedLenFeature):  # a row has one value, or none if it is null
        values, why_not = _values(column.drop_null(), feature.dtype)
        rows, offsets = np.flatnonzero(is_valid), np.concatenate([[0], np.cumsum(is_valid)])
        bad = {int(rows[place]): f'{name} is {why}' for place, why in why_not.items()}
        return Decoded(pyarrow.LargeListArray.from_arrays(offsets, values), bad)
    values, why_not = _values(column, feature.dtype)
    bad = {row: f'{name} is {why}' for row, why in why_not.items()}
    missing = np.flatnonzero(~is_valid)
    if len(missing) and feature.default_value is None:
        bad.update({int(row): f'{name} is missing' for row in missing})
    elif len(missing):
        both = pyarrow.concat_arrays([values, _default(feature)])
        values = both.take(pyarrow.array(np.where(is_valid, np.arange(len(column)), len(column))))
    return Decoded(values, bad)


def _of_fixed_lists(
    column: pyarrow.Array, values: pyarrow.Array, lengths: np.ndarray, bad: dict[int, str], name: str, feature: Feature
) -> Decoded:
    size, missing = column_types.number(feature), ~column.is_valid().to_numpy(zero_copy_only=False)
    wrong = lengths != size
    for row in np.flatnonzero(wrong & ~missing):
        bad[int(row)] = f'{name} has {lengths[row]} values, not {size}'
    if feature.default_value is None:
        bad.update({int(row): f'{name} is missing' for row in np.flatnonzero(missing)})
    wrong |= missing
    if wrong.any():
        both = pyarrow.concat_arrays([values, _default(feature)])
        firsts = np.where(wrong, len(values), np.cumsum(lengths) - lengths)
        values = both.take(pyarrow.array((firsts[:, None] + np.arange(size)).reshape(-1)))
    return Decoded(values if size == 1 else pyarrow.FixedSizeListArray.from_arrays(values, size), bad)


def _default(feature: Feature) -> pyarrow.Array:
    """The values of the default; zeros if there is none."""
    if feature.default_value is None:
        given: Any = [b'' if feature.dtype == tf.string else 0] * column_types.number(feature)
    else:
        given = np.reshape(feature.default_value, [-1]).tolist()
    if feature.dtype == tf.string:
        return pyarrow.array([tf.compat.as_bytes(value) for value in given], pyarrow.large_binary())
    return pyarrow.array(np.array(given, feature.dtype.as_numpy_dtype))


def _values(flat: pyarrow.Array, dtype: tf.DType, refuse_nulls: bool = False) -> tuple[pyarrow.Array, dict[int, str]]:
    """Converts values to another type.

    Args:
        flat: an array without lists.
        dtype: the type.
        refuse_nulls: a null cannot be converted. Otherwise it becomes zero.

    Returns:
        An array without nulls; and a description of each value that cannot be converted, by its place.
    """
    if _is.is_dictionary(flat.type):
        flat = flat.dictionary_decode()
    if _is.is_null(flat.type):
        flat = pyarrow.nulls(len(flat), column_types.arrow_type(dtype))
    nulls = np.flatnonzero(flat.is_null().to_numpy(zero_copy_only=False)) if flat.null_count else ()
    why_not = {int(place): 'a null' for place in nulls} if refuse_nulls else {}
    if dtype == tf.string:
        return _texts(flat), why_not
    if _is.is_decimal(flat.type):
        given = np.array([value or 0 for value in flat.to_pylist()], object)  # a null is zero
        converted, fit = _of_decimals(given, np.dtype(dtype.as_numpy_dtype))
    else:
        if column_types.is_time(flat.type):
            flat = flat.view(pyarrow.int32() if flat.type.bit_width == 32 else pyarrow.int64())
        flat = flat.fill_null(False if _is.is_boolean(flat.type) else 0) if len(nulls) else flat
        given = flat.to_numpy(zero_copy_only=False)
        converted, fit = _converted(given, np.dtype(dtype.as_numpy_dtype))
    for place in () if fit is None else np.flatnonzero(~fit):
        why_not.setdefault(int(place), f'{given[place]}, which is no {dtype.name}')
    return pyarrow.array(converted), why_not


def _texts(flat: pyarrow.Array) -> pyarrow.Array:
    if _is.is_decimal(flat.type):
        flat = flat.cast(pyarrow.string())
    if _is.is_fixed_size_binary(flat.type):
        flat = flat.cast(pyarrow.binary())
    flat = flat.cast(pyarrow.large_binary())
    return flat.fill_null(b'') if flat.null_count else flat


def _of_decimals(given: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray | None]:
    """Does what `_converted` does, for Python's numbers, which are exact whatever their size."""
    if dtype.kind == 'f':
        converted = given.astype(np.float64).astype(dtype)
        return converted, np.isfinite(converted)
    limits = np.iinfo(dtype)
    fit = np.array([limits.min <= value <= limits.max and value == int(value) for value in given], bool)
    return np.where(fit, given, 0).astype(dtype), fit


def _converted(given: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray | None]:
    """Converts numbers to another type of NumPy. Floats are rounded.

    Returns:
        The converted numbers, and for each of them whether it has kept its value; None if all have.
    """
    if given.dtype == dtype:
        return given, None
    if dtype.kind == 'b':
        return given == 1, (given == 0) | (given == 1)
    if given.dtype.kind == 'b':
        return given.astype(dtype), None
    with np.errstate(invalid='ignore', over='ignore'):
        if dtype.kind == 'f' and given.dtype.kind == 'f':
            converted = given.astype(dtype)
            return converted, np.isfinite(converted) | ~np.isfinite(given)
        if dtype.kind == 'f':
            converted = given.astype(dtype)
            inside = _within(converted, np.iinfo(given.dtype))
            return converted, inside & (np.where(inside, converted, 0).astype(given.dtype) == given)
        limits = np.iinfo(dtype)
        if given.dtype.kind == 'f':
            fit = np.isfinite(given) & _within(given, limits) & (np.trunc(given) == given)
        else:
            held = np.iinfo(given.dtype)
            fit = np.ones(len(given), bool)
            if limits.min > held.min:
                fit &= given >= limits.min
            if limits.max < held.max:
                fit &= given <= limits.max
        return np.where(fit, given, 0).astype(dtype), fit


def _within(floats: np.ndarray, limits: np.iinfo) -> np.ndarray:
    """Whether an integer type with these limits can hold each number.

    The largest number of the type is no float, but one more is.
    """
    end = floats.dtype.type(2.0) ** (limits.bits - (limits.min < 0))
    return (floats >= floats.dtype.type(limits.min)) & (floats < end)


def _numpy(array: pyarrow.Array, dtype: tf.DType) -> np.ndarray:
    return np.asarray(array.to_numpy(zero_copy_only=False), object if dtype == tf.string else dtype.as_numpy_dtype)
