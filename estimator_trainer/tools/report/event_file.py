"""Reads scalars from TensorBoard's files of events, as Estimators of any version have written them.

Of a run without metrics.jsonl they tell the loss and the evaluations. A file is a row of TFRecord frames with an Event
in each; frames of more than a MiB, which hold graphs and images, are skipped.
"""

import math
import os
import struct
from collections.abc import Iterator, Sequence

import numpy as np

from estimator_trainer.tools.report.curves import MISSING, Log
from estimator_trainer.tools.report.stretches import Stretches

_LARGEST = 1 << 20
_AT_ONCE = 20_000  # events
_HEADER, _FOOTER = 12, 4
_OWN = {'loss_1': 'loss'}  # an Estimator of TensorFlow 1 writes the loss under either name


def read(paths: list[str], starts: Sequence[float] = ()) -> tuple[Log, list[str]]:
    """The scalars of the files of one folder, and what is wrong with them.

    Args:
        starts: as of Stretches.

    Raises:
        OSError: a file cannot be read.
    """
    notes: list[str] = []
    rows: list = []
    log = Log(stretches=Stretches(starts))
    for path in sorted(paths, key=lambda path: (began(path), path)):
        try:
            for event in _events(path):
                row = _scalars(event)
                if row:
                    rows.append((event.step, event.wall_time, row))
                if len(rows) >= _AT_ONCE:
                    _flush(log, rows)
        except ValueError as error:
            notes.append(f'{os.path.basename(path)}: {error}')
    _flush(log, rows)
    return log, notes


def began(path: str) -> int:
    """When a file was begun, seconds since the epoch, as its name says; 0 where it does not."""
    return next((int(part) for part in os.path.basename(path).split('.') if part.isdigit()), 0)


def _events(path: str) -> Iterator:
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto import event_pb2

    with open(path, 'rb') as file:
        while header := file.read(_HEADER):
            if len(header) < _HEADER:
                raise ValueError('ends within a record: its writer was killed, or still writes')
            (length,) = struct.unpack_from('<Q', header)
            if length > _LARGEST:
                file.seek(length + _FOOTER, os.SEEK_CUR)
                continue
            data = file.read(length + _FOOTER)
            if len(data) < length + _FOOTER:
                raise ValueError('ends within a record: its writer was killed, or still writes')
            try:
                yield event_pb2.Event.FromString(data[:length])
            except DecodeError:
                raise ValueError('holds a record that is no event; what follows it is not read') from None


def _scalars(event) -> dict[str, float]:
    found = {}
    for value in event.summary.value:
        if value.HasField('simple_value'):
            found[_OWN.get(value.tag, value.tag)] = value.simple_value
        elif value.HasField('tensor') and not value.tensor.tensor_shape.dim and value.tensor.dtype in (1, 2):
            number = _of_tensor(value.tensor)
            if number is not None:
                found[_OWN.get(value.tag, value.tag)] = number
    return found


def _of_tensor(tensor) -> float | None:
    held = tensor.float_val or tensor.double_val
    if held:
        return float(held[0])
    form = {4: '<f', 8: '<d'}.get(len(tensor.tensor_content))
    return struct.unpack(form, tensor.tensor_content)[0] if form else None


def _flush(log: Log, rows: list) -> None:
    names = {name: None for _, _, row in rows for name in row}
    steps = np.array([step for step, _, _ in rows], np.int64)
    times = np.array([time for _, time, _ in rows], np.float64)
    log.add(steps, times, {name: np.array([_finite(row.get(name, MISSING)) for _, _, row in rows]) for name in names})
    rows.clear()


def _finite(value: float) -> float:
    return value if value == MISSING or math.isfinite(value) else math.nan
