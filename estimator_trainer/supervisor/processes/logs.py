"""The output of tasks: raw bytes into files of bounded size, whole lines with the task's name to the console."""

import contextlib
import dataclasses
import os
import pathlib

from estimator_trainer.supervisor.processes.console import Console
from estimator_trainer.this_process.child_process import Lines


@dataclasses.dataclass(frozen=True)
class LogBounds:
    """How much of logs is kept. 0: all.

    With the defaults ten attempts of two workers and an evaluator stay below 4 GiB, whatever they print.
    """

    attempts: int = 10  # folders; enough to see how failures began
    mb: int = 64  # MiB of one stream of a task: days of what an ordinary job prints


class RotatedFile:
    """A file of raw bytes that keeps the newest `mb` MiB of them: half in `path`, half in `path`.1.

    Attributes:
      dropped: whether older bytes are gone.
    """

    def __init__(self, path: pathlib.Path, mb: int):
        self._path, self._half = path, mb * (1 << 20) // 2 or float('inf')
        self._file = open(path, 'xb', buffering=0)
        self._size, self._older = 0, False
        self.dropped = False

    def write(self, data: bytes) -> int:
        """How much of `data` was written; less of it where the disk is full. Raises OSError."""
        length = len(data)
        while len(data) > self._half - self._size:
            room = int(self._half) - self._size
            # At the end of a line, unless `data` begins within one that goes on beyond the room.
            cut = data.rfind(b'\n', 0, max(room, 0)) + 1 or (0 if self._size else room)
            written = self._write(data[:cut])
            if written < cut:
                return length - len(data) + written
            data = data[cut:]
            self._rotate()
        return length - len(data) + self._write(data)

    def close(self) -> None:
        self._file.close()

    def _write(self, data: bytes) -> int:
        written = self._file.write(data) if data else 0
        self._size += written
        return written

    def _rotate(self) -> None:
        self.dropped, older = self._older, older_of(self._path)
        try:
            if not self._older and os.path.lexists(older):
                raise FileExistsError(older)  # it is not ours
            os.replace(self._path, older)
            file = open(self._path, 'xb', buffering=0)
        except OSError:  # somebody has removed the folder: the newest bytes stay all the same
            self._file.seek(0)
            self._file.truncate()
            self.dropped = True
        else:
            self._file.close()
            self._file, self._older = file, True
        self._size = 0


class StreamLog:
    """Where one stream of one task goes: all of it to a file, line by line to the console.

    A disk that is full costs the file what comes meanwhile; the task goes on.
    """

    def __init__(self, path: pathlib.Path, console: Console, prefix: bytes, bounds: LogBounds = LogBounds()):
        self._path, self._bounds = path, bounds
        self._file = RotatedFile(path, bounds.mb)
        self._console = console
        self._prefix = prefix
        self._lines = Lines()
        self._complete = self._whole = True

    def feed(self, data: bytes) -> None:
        try:
            why = 'disk full' if self._file.write(data) < len(data) else ''
        except OSError as error:
            why = error.strerror or str(error)
        if why and self._complete:
            self._complete = False
            self._console.say(f'{self._path} is not complete: {why}')
        if self._whole and self._file.dropped:
            self._whole = False
            self._console.say(
                f'{self._path} has reached --max_log_mb={self._bounds.mb}: from now on its oldest lines are dropped'
            )
        self._print(self._lines.feed(data))

    def close(self) -> None:
        self._print(self._lines.close())
        with contextlib.suppress(OSError):
            self._file.close()

    def _print(self, lines: list[bytes]) -> None:
        self._console.write(b''.join(self._prefix + line + b'\n' for line in lines))


def path_of(folder: pathlib.Path, name: str, suffix: str, life: int = 1) -> pathlib.Path:
    """A file of task `name`: 'worker:1', 'err' -> folder/worker-1.err; worker-1.2.err in life 2."""
    lives = '' if life == 1 else f'.{life}'
    return folder / f'{name.replace(":", "-")}{lives}.{suffix}'


def older_of(path: pathlib.Path) -> pathlib.Path:
    """The file in which the older half of a log is."""
    return path.with_name(f'{path.name}.1')


def tail(path: pathlib.Path, lines: int = 20) -> list[str]:
    """The last lines of a log, as text; [] if it cannot be read."""
    found = _last_lines(path, lines)
    if len(found) < lines:
        found = [*_last_lines(older_of(path), lines - len(found)), *found]
    return found


def _last_lines(path: pathlib.Path, lines: int) -> list[str]:
    with contextlib.suppress(OSError), open(path, 'rb') as file:
        file.seek(max(0, path.stat().st_size - 64 * 1024))
        return file.read().decode(errors='replace').splitlines()[-lines:]
    return []
