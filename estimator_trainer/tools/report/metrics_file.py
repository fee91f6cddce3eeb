"""Reads metrics.jsonl by the block, so that a file of any size takes bounded memory.

Arrow parses a block of whole lines at once. A block with a line that is no JSON, which a process that was killed may
have left, is read line by line.
"""

import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from estimator_trainer.tools.report.curves import MISSING, Log
from estimator_trainer.tools.report.stretches import Stretches

_BLOCK = 8 << 20
_LONGEST_LINE = 64 << 20
_NO_METRICS = ('kind', 'step', 'time')
_LOSS = 'loss'  # every line has it; null says that it is not finite. In other columns null may say that it is missing.


def read(path: str, starts: Sequence[float] = ()) -> Log:
    """The log of a file; an empty one where there is no file.

    Args:
        starts: as of Stretches.

    Raises:
        OSError: the file is there and cannot be read.
    """
    log = Log(stretches=Stretches(starts))
    try:
        with open(path, 'rb') as file:
            for block in _blocks(file):
                _add(log, block)
    except FileNotFoundError:
        pass
    return log


def _blocks(file) -> Iterator[bytes]:
    """The file in pieces that end with a line; the end of a last line without one comes too."""
    rest = b''
    while data := file.read(_BLOCK):
        head, newline, tail = data.rpartition(b'\n')
        if newline:
            yield rest + head + newline
            rest = tail
        else:
            rest += data
            if len(rest) > _LONGEST_LINE:  # this is no metrics.jsonl
                rest = b'#'
    if rest:
        yield rest


def _add(log: Log, block: bytes) -> None:
    try:
        table = _parsed(block)
        columns = {name: table[name] for name in table.column_names}
        steps = _numbers(columns.pop('step'))
        times = _numbers(columns.pop('time')) if 'time' in columns else np.full(len(steps), np.nan)
        values = {
            name: _numbers(column, np.nan if name == _LOSS else MISSING)
            for name, column in columns.items()
            if name not in _NO_METRICS
        }
    except (ValueError, KeyError):
        steps, times, values = _line_by_line(block, log)
    else:
        values = {name: column for name, column in values.items() if column is not None}
    if steps is None or times is None:
        steps, times, values = _line_by_line(block, log)
    good = np.isfinite(steps) & (steps >= 0) & (steps < 2**62)
    log.damaged += int(len(good) - np.count_nonzero(good))
    log.add(steps[good].astype(np.int64), times[good], {name: column[good] for name, column in values.items()})


def _parsed(block: bytes) -> Any:
    """An Arrow table. Raises ValueError (ArrowInvalid is one)."""
    import pyarrow
    from pyarrow import json as arrow_json

    try:
        return arrow_json.read_json(
            io.BytesIO(block), read_options=arrow_json.ReadOptions(block_size=max(len(block), 1 << 16))
        )
    except (pyarrow.ArrowNotImplementedError, pyarrow.ArrowKeyError) as error:
        raise ValueError(str(error)) from error


def _numbers(column, null: float = np.nan) -> np.ndarray | None:
    """float64, with `null` in the place of null. None for what is no number."""
    import pyarrow

    kind = column.type
    if pyarrow.types.is_null(kind):
        return np.full(len(column), null)
    if not (pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind)):
        return None
    return column.cast(pyarrow.float64()).fill_null(null).to_numpy()


def _line_by_line(block: bytes, log: Log):
    rows = []
    for line in block.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if isinstance(row, dict) and type(row.get('step')) in (int, float):
            rows.append(row)
        else:
            log.damaged += bool(line.strip())
    names = {name: None for row in rows for name in row if name not in _NO_METRICS}
    steps = np.array([row['step'] for row in rows], np.float64)
    times = np.array([_number(row.get('time')) for row in rows], np.float64)
    columns = {name: np.array([_value(row, name) for row in rows], np.float64) for name in names}
    return steps, times, {name: column for name, column in columns.items() if not (column == MISSING).all()}


def _value(row: dict, name: str) -> float:
    value = row.get(name, MISSING)
    if value is None:
        return np.nan if name == _LOSS else MISSING
    return float(value) if type(value) in (int, float) else MISSING


def _number(value) -> float:
    return float(value) if type(value) in (int, float) else np.nan
