"""metrics.jsonl: one JSON object a line, appended whole."""

import json
import math
import os
import time


class MetricsLog:
    """Appends lines to one file, of which this process is the only writer.

    Each line has `kind` ('train' or 'eval'), `step`, `time` (seconds since the epoch) and the
    values given; a value that is no finite number is written as null, so that every line is JSON.
    """

    def __init__(self, path: str):
        self._path = path

    def write(self, kind: str, step: int, now=None, **values) -> None:
        line = {'kind': kind, 'step': int(step), 'time': round(time.time() if now is None else now, 3)}
        line.update((name, _number(value)) for name, value in values.items())
        os.makedirs(os.path.dirname(self._path) or '.', exist_ok=True)
        with open(self._path, 'a', encoding='utf-8') as file:
            file.write(json.dumps(line) + '\n')


def read(path: str) -> list:
    """The lines of a metrics file, oldest first; [] where there is none.

    A last line that a dying process has cut short is left out.
    """
    try:
        with open(path, encoding='utf-8') as file:
            return [json.loads(line) for line in file if line.endswith('\n')]
    except FileNotFoundError:
        return []


def _number(value):
    try:
        value = float(value)
    except (TypeError, ValueError):
        return str(value)
    return value if math.isfinite(value) else None
