"""In which type a file holds what a model takes, and the way back without a change of any value.

Only floating-point numbers are rounded, to the model's own type.
"""

import numpy as np
import tensorflow as tf

from estimator_trainer.errors import BadExample, UsageError

_IN_EXAMPLES = (tf.float32, tf.int64, tf.string)  # all that a tf.Example knows
_HELD = {
    'csv': (*_IN_EXAMPLES, tf.float64, tf.int32),
    'parquet': (*_IN_EXAMPLES, tf.float64, tf.int8, tf.int16, tf.int32, tf.uint8, tf.uint16, tf.uint32, tf.uint64),
}


def in_files(name: str, dtype: tf.DType, file_format: str) -> tf.DType:
    """The type in which files of this format hold a feature of the model.

    Raises:
        UsageError: no file can hold it.
    """
    if dtype in _HELD.get(file_format, _IN_EXAMPLES):
        return dtype
    if dtype.is_integer or dtype.is_bool:
        return tf.int64
    if dtype.is_floating:
        return tf.float32
    raise UsageError(f'the model takes {name} as {dtype.name}, which no file holds; choose another --signature.')


def converted(name: str, column, dtype: tf.DType, where):
    """A column of files in the type that the model takes.

    Args:
        column: Tensor [rows, ...], as it was read.
        where: number of a row of the column -> where it lies, for a message.

    Raises:
        BadExample: a number of it is none of that type.
    """
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
        row = int(np.argwhere(~fit)[0][0])
        value = values[row].reshape(-1)[np.flatnonzero(~fit[row].reshape(-1))[0]]
        raise BadExample(f'{where(row)}: {name} is {value}, and the model takes it as {dtype.name}; mend it')
    return tf.cast(column, dtype)
