"""metrics.jsonl: one JSON object a line, appended whole."""

import contextlib
import errno
import json
import math
import os
import time
from collections.abc import Iterator

from estimator_trainer.run_dir import files

TAIL_BYTES = 1 << 16  # of a file, that are read for its last lines


class MetricsLog:
    """Appends lines to one file, of which this process is the only writer.

    Each line has `kind` ('train' or 'eval'), `step`, `time` (seconds since the epoch) and the
    values given; a number that is not finite is written as null, so that every line is JSON.
    """

    def __init__(self, path: str):
        self._path = path

    def write(self, kind: str, step: int, values, now=None) -> None:
        line = {'kind': kind, 'step': int(step), 'time': round(time.time() if now is None else now, 3)}
        line = {**line, **{name: plain(value) for name, value in values.items()}, **line}
        os.makedirs(os.path.dirname(self._path) or '.', exist_ok=True)
        with files.append(self._path) as file:
            size = file.tell()
            text = json.dumps(line).encode() + b'\n'
            if size and not self._ends_a_line(file):
                text = b'\n' + text
            if file.write(text) < len(text):  # the disk is full
                file.truncate(size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)

    def _ends_a_line(self, file) -> bool:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b'\n'

    def read(self) -> list:
        """The lines, oldest first; [] where there is no file.

        A line that a dying process has cut short is left out, as is any other that is no object of JSON.
        """
        try:
            with open(self._path, encoding='utf-8', errors='replace') as file:
                lines = file.readlines()
        except FileNotFoundError:
            return []
        whole = []
        for line in lines:
            with contextlib.suppress(json.JSONDecodeError):
                whole.append(json.loads(line))
        return [line for line in whole if isinstance(line, dict)]


def tail(path: str) -> list[dict]:
    """The last whole lines of a file of JSON, oldest first; [] where there is no such file."""
    return list(_newest_first(path))[::-1]


def last(path: str) -> dict:
    """The last whole line of a file of JSON; {} where there is none."""
    return next(_newest_first(path), {})


def _newest_first(path: str) -> Iterator[dict]:
    try:
        with open(path, 'rb') as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            lines = file.read().splitlines()
    except OSError:
        return
    for line in reversed(lines[1:] if size > TAIL_BYTES else lines):
        with contextlib.suppress(ValueError):
            value = json.loads(line)
            if isinstance(value, dict):
                yield value


def shown(metrics) -> str:
    """The metrics that are single numbers, as people read them."""
    numbers = ((name, value if value is None else plain(value)) for name, value in sorted(metrics.items()))
    return ', '.join(
        f'{name} is not finite' if value is None else f'{name} {value:.4f}'
        for name, value in numbers
        if value is None or isinstance(value, float)
    )


def plain(value):
    """A float, a list of floats, None for what is not finite, or text."""
    if hasattr(value, 'tolist'):  # NumPy's arrays and numbers
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    try:
        value = float(value)
    except (TypeError, ValueError):
        return value.decode(errors='replace') if isinstance(value, bytes) else str(value)
    return value if math.isfinite(value) else None
