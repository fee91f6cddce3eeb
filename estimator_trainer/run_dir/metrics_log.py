"""metrics.jsonl: one JSON object a line, appended whole. The one writer of such files, and the one parser."""

import contextlib
import errno
import json
import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any, NamedTuple

from estimator_trainer.run_dir import files

TAIL_BYTES = 1 << 16  # of a file, that are read for its last lines
MOST_TAIL_BYTES = 1 << 24  # the same, where a line is longer, such as one with a metric of many numbers
BLOCK_BYTES = 256 << 10
NOT_METRICS = frozenset(('kind', 'step', 'time'))  # what each line has beside its metrics


class Block(NamedTuple):
    """Neighbouring lines of a file.

    Attributes:
        lines: the objects, oldest first.
        end: the position behind them, in bytes.
        damaged: how many lines between them are no objects of JSON.
        is_cut: the beginning of a line follows, which its writer has not finished yet, or never will.
    """

    lines: list[dict[str, Any]]
    end: int
    damaged: int
    is_cut: bool


class MetricsLog:
    """Appends lines to one file, of which this process is the only writer.

    Each line has `kind` ('train' or 'eval'), `step`, `time` (seconds since the epoch) and the
    values given; a number that is not finite is written as null, so that every line is JSON.
    """

    def __init__(self, path: str):
        self._path = path

    def write(self, kind: str, step: int, values: Mapping[str, Any], now: float | None = None) -> None:
        """Appends a line, or nothing.

        Raises:
            OSError: it cannot be written.
        """
        line: dict[str, Any] = {'kind': kind, 'step': int(step), 'time': round(time.time() if now is None else now, 3)}
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

    def _ends_a_line(self, file: IO[bytes]) -> bool:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b'\n'

    def read(self) -> list[dict[str, Any]]:
        """The lines, oldest first; [] where there is no file.

        Raises:
            OSError: the file is there and cannot be read.
        """
        return [line for block in blocks(self._path) for line in block.lines]


def blocks(path: str, position: int = 0, most_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """The lines behind a position, in blocks; none where there is no file.

    A line that is no object of JSON is left out: a process that was killed may have cut it short. If the last line has
    no end yet and is no object, its writer may still be writing it: `end` lies before it.

    Args:
        position: 0, or the `end` of a block.
        most_bytes: of a block; one line may be longer.

    Raises:
        OSError: the file is there and cannot be read.
    """
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), open(path, 'rb') as file:
        file.seek(position)
        while raw := file.readlines(most_bytes):
            ends = raw[-1].endswith(b'\n')
            is_cut = not ends and _parsed(raw[-1]) is None
            if is_cut:
                del raw[-1]
            lines = _all_parsed(raw)
            position += sum(map(len, raw))
            yield Block(lines, position, sum(not each.isspace() for each in raw) - len(lines), is_cut)
            if not ends:  # what follows may begin within that line
                return


def tail(path: str) -> list[dict[str, Any]]:
    """The last lines of a file, oldest first: those in its last TAIL_BYTES, or at least one if it is not longer than
    MOST_TAIL_BYTES. [] where there is no such file, or it cannot be read."""
    return list(_newest_first(path))[::-1]


def last(path: str) -> dict[str, Any]:
    """The last line of a file; {} where there is none, or the file cannot be read."""
    return next(_newest_first(path), {})


def last_step(lines: Iterable[Mapping[str, Any]], since: float) -> int | None:
    """The greatest step among the lines of metrics.jsonl that were written at `since` or later, in seconds since the
    epoch. None: there is none."""
    written = ((line.get('step'), line.get('time')) for line in lines)
    steps = (step for step, at in written if isinstance(at, int | float) and at >= since)
    return max((step for step in steps if type(step) is int), default=None)


def tails() -> Iterator[int]:
    """How many bytes are read for the last lines of a file: ever more, until a line is among them."""
    most = TAIL_BYTES
    while most <= MOST_TAIL_BYTES:
        yield most
        most *= 2


def _newest_first(path: str) -> Iterator[dict[str, Any]]:
    for most in tails():
        has_any = False
        try:
            with open(path, 'rb') as file:
                begin = max(0, file.seek(0, os.SEEK_END) - most)
                file.seek(begin)
                lines = file.read().splitlines()
        except OSError:
            return
        is_whole = not begin
        for line in reversed(lines if is_whole else lines[1:]):
            value = _parsed(line)
            if value is not None:
                has_any = True
                yield value
        if is_whole or has_any:
            return


def _all_parsed(lines: list[bytes]) -> list[dict[str, Any]]:
    """The objects in these lines. Several at once are parsed in half the time, if no line is damaged."""
    with contextlib.suppress(ValueError, RecursionError):
        values: list[dict[str, Any]] = json.loads(b'[%b]' % b','.join(lines))
        if len(values) == len(lines) and all(isinstance(value, dict) for value in values):
            return values
    return [value for value in map(_parsed, lines) if value is not None]


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def values_of(line: Mapping[str, Any]) -> dict[str, float]:
    """The metrics of a line that are single numbers; one that is not finite is left out."""
    return {
        name: float(value)
        for name, value in line.items()
        if name not in NOT_METRICS and type(value) in (int, float) and math.isfinite(value)
    }


def in_words(metrics: Mapping[str, Any]) -> str:
    """The metrics that are single numbers, as people read them."""
    numbers = ((name, value if value is None else plain(value)) for name, value in sorted(metrics.items()))
    return ', '.join(
        f'{name} is not finite' if value is None else f'{name} {value:.4f}'
        for name, value in numbers
        if value is None or isinstance(value, float)
    )


def not_finite(metrics: Mapping[str, Any]) -> list[str]:
    """The names of the metrics that are a single number which is not finite."""
    return [
        name
        for name, value in sorted(metrics.items())
        if name not in NOT_METRICS and not isinstance(value, (str, bytes)) and plain(value) is None
    ]


def may_be_best(evaluation: Mapping[str, Any], metric: str) -> bool:
    """Whether an evaluation may be the best one by a metric, which is a finite number; the loss is finite too, if it is
    a number."""
    value, loss = evaluation.get(metric), evaluation.get('loss', 0.0)
    is_number = not isinstance(value, (str, bytes)) and type(plain(value)) is float
    return is_number and loss is not None and plain(loss) is not None


def warning(step: int, metrics: Mapping[str, Any]) -> str:
    """What to say of an evaluation with a metric that is not finite; '' of others."""
    bad = not_finite(metrics)
    if not bad:
        return ''
    what = f'{", ".join(bad)} {"is" if len(bad) == 1 else "are"}'
    return (
        f'WARNING: evaluation at step {step}: {what} not finite. Look at the examples of the evaluation, and at how it '
        'is computed.'
    )


def plain(value: Any) -> Any:
    """A float, also of an array of one number, a list of floats, None for what is not finite, or text."""
    if hasattr(value, 'tolist'):  # NumPy's arrays and numbers
        value = value.item() if value.size == 1 else value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    try:
        value = float(value)
    except (TypeError, ValueError):
        return value.decode(errors='replace') if isinstance(value, bytes) else str(value)
    return value if math.isfinite(value) else None
