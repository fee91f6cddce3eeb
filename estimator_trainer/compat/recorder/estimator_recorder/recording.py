"""Writes down what was computed: a line of events.jsonl for each event, and numbers in arrays.bin.

Each event is flushed, so that what a killed program has computed is there. One process records: the first of the
program's that has something to record.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

EVENTS, ARRAYS, CLAIM, OTHERS = 'events.jsonl', 'arrays.bin', 'claimed', 'others'
_STRINGS = 256  # of an array of strings, that are written down
_LONGEST = 100_000  # characters of an error


def text_of(error: BaseException) -> str:
    """All of an error's text: of those of TensorFlow, `verify` finds the line that tells something."""
    return (str(getattr(error, 'message', None) or error).strip() or type(error).__name__)[:_LONGEST]


class Recording:
    """The files of one run, in `folder`."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._process: int | None = None  # that has claimed, or has failed to
        self._events: Any = None
        self._arrays: Any = None

    def is_recorder(self) -> bool:
        """Whether this process records. A process forked off the one that does is another process."""
        if self._process is None:
            self._process = os.getpid()
            self._claim()
        return self._process == os.getpid() and self._events is not None

    def _claim(self) -> None:
        try:
            os.close(os.open(os.path.join(self._folder, CLAIM), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            with open(os.path.join(self._folder, OTHERS), 'a') as file:
                file.write(f'{os.getpid()}\n')
            return
        self._events = open(os.path.join(self._folder, EVENTS), 'w', encoding='utf-8')
        self._arrays = open(os.path.join(self._folder, ARRAYS), 'wb')

    def write(self, kind: str, **facts: Any) -> None:
        if self.is_recorder():
            self._arrays.flush()
            self._events.write(json.dumps(dict(facts, kind=kind)) + '\n')
            self._events.flush()

    def array(self, value: Any, most: int, before: Any = None) -> dict[str, Any]:
        """Describes an array, and writes down its elements, or `most` of them that are evenly spaced.

        Args:
            before: the array at the last time, of which a sample may show no change: `moved` is the norm of it.
        """
        if not self.is_recorder():
            return {}
        array = np.asarray(value)
        if array.dtype.kind in 'OSU':
            return _strings(array)
        if array.dtype.kind not in 'biufc':  # bfloat16 and its like, which are no types of NumPy's
            array = array.astype(np.float32)
        flat = np.ascontiguousarray(array).reshape(-1)
        description: dict[str, Any] = {
            'dtype': array.dtype.str,
            'shape': list(array.shape),
            'digest': hashlib.sha1(flat.data).hexdigest(),
        }
        if flat.size > most:
            numbers = flat.astype(np.float64)
            description['largest'] = float(np.max(np.abs(numbers)))
            description['norm'] = float(np.linalg.norm(numbers))
            if before is not None:
                description['moved'] = float(np.linalg.norm(numbers - np.asarray(before, np.float64).reshape(-1)))
            flat = flat[np.linspace(0, flat.size - 1, most).astype(np.int64)]
        description.update(at=self._arrays.tell(), taken=int(flat.size))
        self._arrays.write(flat.tobytes())
        return description

    def arrays(self, values: Mapping[str, Any], most: int) -> dict[str, dict[str, Any]]:
        """Those of a dict; where a name stands for nothing that can be an array, it is left out."""
        return {name: self.array(value, most) for name, value in values.items() if value is not None}


def _strings(array: np.ndarray) -> dict[str, Any]:
    texts = [_text(value) for value in array.reshape(-1)]
    digest = hashlib.sha1('\0'.join(texts).encode('utf-8', 'surrogatepass')).hexdigest()
    return {'dtype': 'string', 'shape': list(array.shape), 'digest': digest, 'strings': texts[:_STRINGS]}


def _text(value: Any) -> str:
    return value.decode('utf-8', 'backslashreplace') if isinstance(value, bytes) else str(value)
