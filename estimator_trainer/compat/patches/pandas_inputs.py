"""A mend of pandas_input_fn."""

from __future__ import annotations

import functools
import sys
from typing import Any


def take_strings(module: Any) -> None:
    """Lets pandas_input_fn read columns of strings as pandas 3 makes them, which have a dtype of their own.

    Touches: tensorflow_estimator.python.estimator.inputs.queues.feeding_functions._enqueue_data
    Without it: pandas_input_fn ends with "Cannot convert ... to a TensorFlow DType" at each column of strings of
      pandas 3
    For: every program
    """
    original = module._enqueue_data

    @functools.wraps(original)
    def enqueue(data: Any, *arguments: Any, **more: Any) -> Any:
        return original(_with_objects(data), *arguments, **more)

    module._enqueue_data = enqueue


def _with_objects(data: Any) -> Any:
    """A DataFrame whose strings are Python objects, as those of earlier versions of pandas were; or data itself."""
    pandas = sys.modules.get('pandas')
    if pandas is None or not isinstance(data, pandas.DataFrame):
        return data
    strings = [number for number, dtype in enumerate(data.dtypes) if isinstance(dtype, pandas.StringDtype)]
    if strings:
        columns = [data.iloc[:, number] for number in range(data.shape[1])]
        columns = [each.astype(object) if number in strings else each for number, each in enumerate(columns)]
        data = pandas.concat(columns, axis=1)
    if isinstance(data.index.dtype, pandas.StringDtype):
        data = data.set_axis(data.index.astype(object), axis=0)
    return data
