"""Reads scalars from TensorBoard's files of events, as Estimators of any version have written them.

A file is a row of TFRecord frames with an Event in each. Frames of more than a MiB, which hold graphs and images, are
skipped. Imports no TensorFlow.
"""

import contextlib
import glob
import math
import os
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from estimator_trainer.run_dir import file_names, metrics_log

_LARGEST_BYTES = 1 << 20
_HEADER_BYTES, _FOOTER_BYTES = 12, 4
_FLOATS = (1, 2)  # DT_FLOAT, DT_DOUBLE
_CUT = 'ends within a record: its writer was killed, or still writes'


class Scalars(NamedTuple):
    """An event. `time`: seconds since the epoch; `values`: the single numbers in it, by their tags."""

    step: int
    time: float
    values: dict[str, float]


def began(path: str) -> int:
    """When a file was begun, seconds since the epoch, as its name says; 0 where it does not."""
    return next((int(part) for part in os.path.basename(path).split('.') if part.isdigit()), 0)


def read(path: str) -> Iterator[Scalars]:
    """The events of a file that have single numbers, in the order of the file.

    Raises:
        ValueError: the rest of the file cannot be read; the text is a part of a sentence about the file.
        OSError: the file cannot be read.
    """
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto import event_pb2

    with open(path, 'rb') as file:
        while header := file.read(_HEADER_BYTES):
            if len(header) < _HEADER_BYTES:
                raise ValueError(_CUT)
            (length,) = struct.unpack_from('<Q', header)
            if length > _LARGEST_BYTES:
                file.seek(length + _FOOTER_BYTES, os.SEEK_CUR)
                continue
            data = file.read(length + _FOOTER_BYTES)
            if len(data) < length + _FOOTER_BYTES:
                raise ValueError(_CUT)
            try:
                event = event_pb2.Event.FromString(data[:length])
            except DecodeError:
                raise ValueError('holds a record that is no event; what follows it is not read') from None
            values = {value.tag: number for value in event.summary.value if (number := _number(value)) is not None}
            if values:
                yield Scalars(event.step, event.wall_time, values)


def best(model_dir: str, metric: str, higher_is_better: bool) -> tuple[int | None, float]:
    """The best evaluation that another program has left in files of events of `eval`: its step, None if there is none,
    and its value. Steps in our own lines there are ours. What cannot be read is left out."""
    folder = os.path.join(model_dir, 'eval')
    own = {line.get('step') for line in metrics_log.MetricsLog(os.path.join(folder, file_names.METRICS)).read()}
    values: dict[int, float] = {}
    for path in sorted(glob.glob(f'{glob.escape(folder)}/*tfevents*')):
        with contextlib.suppress(OSError, ValueError):
            for event in read(path):
                value = event.values.get(metric)
                if value is not None and math.isfinite(value) and event.step not in own:
                    values[event.step] = value
    if not values:
        return None, 0.0
    step = (max if higher_is_better else min)(values, key=lambda step: values[step])
    return step, values[step]


def measured(
    model_dir: str, folder: str, paths: Sequence[str], most_bytes: int
) -> tuple[dict[int, dict[str, float]], list[str]]:
    """The metrics by step in a folder with evaluations, and a sentence for each file that is not read in full.

    Args:
        folder: in the model_dir. Its metrics.jsonl says all that its files of events say, if it is there.
        paths: the files of events.
        most_bytes: a larger file of events is not read.

    Raises:
        OSError: a file cannot be read.
    """
    by_step: dict[int, dict[str, float]] = {}
    problems = []
    lines = metrics_log.MetricsLog(os.path.join(model_dir, folder, file_names.METRICS)).read()
    for line in lines:
        if isinstance(line.get('step'), int):
            by_step.setdefault(line['step'], {}).update(metrics_log.values_of(line))
    for path in () if lines else paths:
        name, size = os.path.relpath(path, model_dir), os.path.getsize(path)
        if size > most_bytes:
            problems.append(f'{name} is not read: it has {size >> 20} MiB.')
            continue
        try:
            for event in read(path):
                by_step.setdefault(event.step, {}).update(event.values)
        except ValueError as error:
            problems.append(f'{name} {error}.')
    return {step: metrics for step, metrics in sorted(by_step.items()) if metrics}, problems


def _number(value: Any) -> float | None:
    if value.HasField('simple_value'):
        return float(value.simple_value)
    tensor = value.tensor
    if not value.HasField('tensor') or tensor.tensor_shape.dim or tensor.dtype not in _FLOATS:
        return None
    values = tensor.float_val or tensor.double_val
    if values:
        return float(values[0])
    form = {4: '<f', 8: '<d'}.get(len(tensor.tensor_content))
    return struct.unpack(form, tensor.tensor_content)[0] if form else None
