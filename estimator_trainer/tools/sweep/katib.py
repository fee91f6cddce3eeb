"""Katib's metrics format: a line `<RFC 3339 time> name=value` for each number of each evaluation.

Katib's collectors of kind StdOut and File (format TEXT) read such lines, and take the highest, lowest or last value.
"""

import contextlib
import datetime
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import IO

from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import metrics_log

_LINE = re.compile(r'\d{4}-\d\d-\d\dT[\d:.]+Z \S+=\S+$')


def refuse_others(path: str) -> None:
    """Comes before a `Writer` makes the file anew.

    Raises:
        UsageError: a file is there whose first line is not in this format.
    """
    if not os.path.isfile(path):  # a pipe, or nothing
        return
    with open(path, encoding='utf-8', errors='replace') as file:
        first = file.readline().rstrip('\n')
    if first and not _LINE.match(first):
        raise UsageError(
            f'--katib_metrics={path}: is there already, and holds no metrics of Katib; move it away, or name another.'
        )


def lines_of(evaluations: Iterable[dict]) -> list[str]:
    """The lines for lines of eval/metrics.jsonl. What is no finite number is left out."""
    texts = []
    for line in evaluations:
        at = datetime.datetime.fromtimestamp(line.get('time') or 0, datetime.timezone.utc)
        stamp = at.isoformat(timespec='milliseconds').replace('+00:00', 'Z')
        numbers = {name: value for name, value in line.items() if name not in metrics_log.NOT_METRICS}
        texts += [
            f'{stamp} {name}={value!r}'
            for name, value in numbers.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        ]
    return texts


class Writer:
    """Writes the evaluations of a sweep, also those of earlier starts, to a file that it makes anew, or to stdout.

    Args:
        path: '-' for stdout; '': nothing is written.

    Raises (on creation):
        OSError: the file cannot be written.
    """

    def __init__(self, path: str):
        self._file: IO[str] | None = None
        if path:
            self._file = sys.stdout if path == '-' else open(path, 'w', encoding='utf-8')

    def write(self, evaluations: Sequence[dict]) -> None:
        for line in lines_of(evaluations) if self._file else ():
            print(line, file=self._file, flush=True)

    def close(self) -> None:
        if self._file not in (None, sys.stdout):
            with contextlib.suppress(OSError):
                self._file.close()
