"""Columns of Arrow as the values of features, without a change of any value.

| column | as |
|---|---|
| integers, bools | any number; one that the feature's type cannot hold exactly makes its row a bad example |
| floating-point numbers | float32 and float64, rounded; integers, if they have no fraction |
| decimals | float32 and float64, rounded; integers, if they have no fraction; their text as a string |
| dates, times, timestamps, durations | int64: their unit since 1970-01-01 (UTC) or since midnight |
| strings, bytes | strings |
| dictionaries | what their values are |
| lists of these | VarLenFeature, RaggedFeature, and FixedLenFeature of as many values |

A row of a column that is no list is one value. A null row is the default, or no value where there may be none. A null
within a list is no value that a feature can have: it makes its row a bad example, as everything does that does not fit.
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow
import pyarrow.compute
import tensorflow as tf

from estimator_trainer.data.files import column_types

_is = pyarrow.types


class Decoded(NamedTuple):
    """Attributes:
    values: an Array with the rows; a FixedSizeListArray or a LargeListArray of values for a feature that has several.
        No value is null. What stands in a bad row means nothing.
    bad: row -> why it cannot be used.
    """

    values: pyarrow.Array
    bad: dict[int, str]


def decoded(column, name: str, feature) -> Decoded:
    """The values of a column, a ChunkedArray or an Array, that `check_column` lets pass."""
    chunks = column.chunks if isinstance(column, pyarrow.ChunkedArray) else [column]
    parts, bad, first = [], {}, 0
    for chunk in chunks or [pyarrow.array([], column.type)]:
        part = _decoded(chunk, name, feature)
        parts.append(part.values)
        bad.update({first + row: why for row, why in part.bad.items()})
        first += len(chunk)
    return Decoded(parts[0] if len(parts) == 1 else pyarrow.concat_arrays(parts), bad)


def raw_types(feature) -> list:
    if isinstance(feature, tf.io.FixedLenFeature):
        return [feature.dtype]
    return [feature.dtype, column_types.lengths_type(feature)]


def in_one(column) -> pyarrow.Array:
    """A column of a table whose chunks have been combined."""
    return column.chunk(0) if column.num_chunks else pyarrow.array([], column.type)


def arrays(values: pyarrow.Array, feature) -> list[np.ndarray]:
    """What `tensor` takes: the values, and how many each row has if that differs."""
    if isinstance(feature, tf.io.FixedLenFeature):
        return [_numpy(values.flatten() if column_types.is_list(values.type) else values, feature.dtype)]
    lengths = pyarrow.compute.list_value_length(values).to_numpy(zero_copy_only=False)
    return [_numpy(values.flatten(), feature.dtype), lengths.astype(column_types.lengths_type(feature).as_numpy_dtype)]


def tensor(raw, feature):
    """The tensors of `arrays` -> Tensor, SparseTensor or RaggedTensor."""
    if isinstance(feature, tf.io.FixedLenFeature):
        return tf.reshape(raw[0], [-1, *feature.shape])
    ragged = tf.RaggedTensor.from_row_lengths(*raw, validate=False)
    return ragged.to_sparse() if isinstance(feature, tf.io.VarLenFeature) else ragged


def _decoded(column, name, feature) -> Decoded:
    if _is.is_dictionary(column.type):
        column = column.dictionary_decode()
    if _is.is_null(column.type):
        column = pyarrow.nulls(len(column), pyarrow.large_list(column_types.arrow_type(feature.dtype)))
    if not column_types.is_list(column.type):
        return _of_scalars(column, name, feature)
    lengths = pyarrow.compute.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    values, why_not = _values(column.flatten(), feature.dtype, has_to_be=True)
    rows = np.repeat(np.arange(len(column)), lengths) if why_not else ()
    bad = {int(rows[place]): f'{name} has in its list {why}' for place, why in why_not.items()}
    if isinstance(feature, tf.io.FixedLenFeature):
        return _of_fixed_lists(column, values, lengths, bad, name, feature)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return Decoded(pyarrow.LargeListArray.from_arrays(offsets, values), bad)


def _of_scalars(column, name, feature) -> Decoded:
    there = column.is_valid().to_numpy(zero_copy_only=False)
    if not isinstance(feature, tf.io.FixedLenFeature):  # one value in each row that is there
        values, why_not = _values(column.drop_null(), feature.dtype)
        rows, offsets = np.flatnonzero(there), np.concatenate([[0], np.cumsum(there)])
        bad = {int(rows[place]): f'{name} is {why}' for place, why in why_not.items()}
        return Decoded(pyarrow.LargeListArray.from_arrays(offsets, values), bad)
    values, why_not = _values(column, feature.dtype)
    bad = {row: f'{name} is {why}' for row, why in why_not.items()}
    missing = np.flatnonzero(~there)
    if len(missing) and feature.default_value is None:
        bad.update({int(row): f'{name} is missing' for row in missing})
    elif len(missing):
        both = pyarrow.concat_arrays([values, _default(feature)])
        values = both.take(pyarrow.array(np.where(there, np.arange(len(column)), len(column))))
    return Decoded(values, bad)


def _of_fixed_lists(column, values, lengths, bad, name, feature) -> Decoded:
    wanted, missing = column_types.number(feature), ~column.is_valid().to_numpy(zero_copy_only=False)
    wrong = lengths != wanted
    for row in np.flatnonzero(wrong & ~missing):
        bad[int(row)] = f'{name} has {lengths[row]} values, not {wanted}'
    if feature.default_value is None:
        bad.update({int(row): f'{name} is missing' for row in np.flatnonzero(missing)})
    wrong |= missing
    if wrong.any():
        both = pyarrow.concat_arrays([values, _default(feature)])
        firsts = np.where(wrong, len(values), np.cumsum(lengths) - lengths)
        values = both.take(pyarrow.array((firsts[:, None] + np.arange(wanted)).reshape(-1)))
    return Decoded(values if wanted == 1 else pyarrow.FixedSizeListArray.from_arrays(values, wanted), bad)


def _default(feature) -> pyarrow.Array:
    """The values of the default, or zeros where there is none."""
    if feature.default_value is None:
        given: Any = [b'' if feature.dtype == tf.string else 0] * column_types.number(feature)
    else:
        given = np.reshape(feature.default_value, [-1]).tolist()
    if feature.dtype == tf.string:
        return pyarrow.array([tf.compat.as_bytes(value) for value in given], pyarrow.large_binary())
    return pyarrow.array(np.array(given, feature.dtype.as_numpy_dtype))


def _values(flat, dtype, has_to_be=False):
    """The values of an Array in another type, and what cannot be had in it.

    Args:
        has_to_be: a null is no value. Otherwise zero stands in its place.

    Returns:
        (Array without nulls, {place: what is there}).
    """
    if _is.is_dictionary(flat.type):
        flat = flat.dictionary_decode()
    if _is.is_null(flat.type):
        flat = pyarrow.nulls(len(flat), column_types.arrow_type(dtype))
    nulls = np.flatnonzero(flat.is_null().to_numpy(zero_copy_only=False)) if flat.null_count else ()
    why_not = {int(place): 'a null' for place in nulls} if has_to_be else {}
    if dtype == tf.string:
        return _texts(flat), why_not
    if _is.is_decimal(flat.type):
        given = np.array([value or 0 for value in flat.to_pylist()], object)  # a null is zero
        found, fit = _of_decimals(given, np.dtype(dtype.as_numpy_dtype))
    else:
        if column_types.is_time(flat.type):
            flat = flat.view(pyarrow.int32() if flat.type.bit_width == 32 else pyarrow.int64())
        flat = flat.fill_null(False if _is.is_boolean(flat.type) else 0) if len(nulls) else flat
        given = flat.to_numpy(zero_copy_only=False)
        found, fit = _converted(given, np.dtype(dtype.as_numpy_dtype))
    for place in () if fit is None else np.flatnonzero(~fit):
        why_not.setdefault(int(place), f'{given[place]}, which is no {dtype.name}')
    return pyarrow.array(found), why_not


def _texts(flat) -> pyarrow.Array:
    if _is.is_decimal(flat.type):
        flat = flat.cast(pyarrow.string())
    if _is.is_fixed_size_binary(flat.type):
        flat = flat.cast(pyarrow.binary())
    flat = flat.cast(pyarrow.large_binary())
    return flat.fill_null(b'') if flat.null_count else flat


def _of_decimals(given, wanted):
    """As `_converted`, of Python's numbers, which are exact whatever their size."""
    if wanted.kind == 'f':
        found = given.astype(np.float64).astype(wanted)
        return found, np.isfinite(found)
    limits = np.iinfo(wanted)
    fit = np.array([limits.min <= value <= limits.max and value == int(value) for value in given], bool)
    return np.where(fit, given, 0).astype(wanted), fit


def _converted(given, wanted):
    """Numbers in another type of NumPy, and which of them are the same there: None, all are. Floats are rounded."""
    if given.dtype == wanted:
        return given, None
    if wanted.kind == 'b':
        return given == 1, (given == 0) | (given == 1)
    if given.dtype.kind == 'b':
        return given.astype(wanted), None
    with np.errstate(invalid='ignore', over='ignore'):
        if wanted.kind == 'f' and given.dtype.kind == 'f':
            found = given.astype(wanted)
            return found, np.isfinite(found) | ~np.isfinite(given)
        if wanted.kind == 'f':
            found = given.astype(wanted)
            inside = _within(found, np.iinfo(given.dtype))
            return found, inside & (np.where(inside, found, 0).astype(given.dtype) == given)
        limits = np.iinfo(wanted)
        if given.dtype.kind == 'f':
            fit = _within(given, limits) & (np.trunc(given) == given)
        else:
            held = np.iinfo(given.dtype)
            fit = np.ones(len(given), bool)
            if limits.min > held.min:
                fit &= given >= limits.min
            if limits.max < held.max:
                fit &= given <= limits.max
        return np.where(fit, given, 0).astype(wanted), fit


def _within(floats, limits):
    """Which of them an integer type of these limits can hold. Its largest number is no float, but one more is."""
    end = floats.dtype.type(2.0) ** (limits.bits - (limits.min < 0))
    return (floats >= floats.dtype.type(limits.min)) & (floats < end)


def _numpy(array, dtype) -> np.ndarray:
    return np.asarray(array.to_numpy(zero_copy_only=False), object if dtype == tf.string else dtype.as_numpy_dtype)
