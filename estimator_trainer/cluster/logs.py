"""The output of tasks: raw bytes into files, whole lines with the task's name to the console."""

import contextlib
import os
import pathlib
import re
import select
import tempfile

_LINE = re.compile(rb'([^\r\n]*)(\r\n|\n|\r)')
_COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)  # SGR codes; red is left to errors


class Lines:
    r"""Cuts a stream of bytes into lines; '\n', '\r\n' and '\r' end one.

    Progress bars that draw with '\r' become lines; the empty ones among them are dropped. What is
    longer than `limit` bytes comes in pieces, so that a task without line ends cannot fill the
    memory.
    """

    def __init__(self, limit: int = 64 * 1024):
        self._limit = limit
        self._rest = b''
        self._after_cr = False

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data`, which is not empty, completes; without their ends."""
        text = self._rest + (data.removeprefix(b'\n') if self._after_cr else data)
        self._after_cr = data.endswith(b'\r')  # then a '\n' to come belongs to it
        lines, end = [], 0
        for match in _LINE.finditer(text):
            line, terminator = match.groups()
            end = match.end()
            if line or terminator != b'\r':
                lines += self._pieces(line)
        *full, self._rest = self._pieces(text[end:])
        return lines + full

    def close(self) -> list[bytes]:
        """What is left, as a last line."""
        rest, self._rest = self._rest, b''
        return [rest] if rest else []

    def _pieces(self, line: bytes) -> list[bytes]:
        starts = range(0, max(1, len(line)), self._limit)
        return [line[start : start + self._limit] for start in starts]


class Console:
    """Writes whole lines to a file descriptor, such as our stdout.

    When nobody reads it any more (`| head`) the rest is dropped: the log files have it all.
    """

    def __init__(self, fd: int, colour: bool):
        self._fd: int | None = fd
        self._colour = colour

    @classmethod
    def of(cls, fd: int, environ) -> 'Console':
        """For a terminal, coloured unless NO_COLOR is set."""
        return cls(fd, os.isatty(fd) and not environ.get('NO_COLOR'))

    def prefix(self, name: str, number: int) -> bytes:
        """What the lines of task `name`, the `number`-th, begin with."""
        if not self._colour:
            return f'[{name}] '.encode()
        return f'\x1b[{_COLOURS[number % len(_COLOURS)]}m[{name}]\x1b[0m '.encode()

    def write(self, data: bytes) -> None:
        while data and self._fd is not None:
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:  # somebody made our stdout non-blocking
                select.select([], [self._fd], [])
            except OSError:
                self._fd = None

    def say(self, text: str) -> None:
        """Writes lines of the supervisor's own."""
        lines = text.splitlines()
        self.write(''.join(f'[cluster] {line}\n' for line in lines).encode(errors='replace'))


class StreamLog:
    """Where one stream of one task goes: all of it to a file, line by line to the console.

    A disk that is full costs the file what comes meanwhile; the task goes on.
    """

    def __init__(self, path: pathlib.Path, console: Console, prefix: bytes):
        self._file = open(path, 'xb', buffering=0)
        self._console = console
        self._prefix = prefix
        self._lines = Lines()
        self._complete = True

    def feed(self, data: bytes) -> None:
        try:
            written = self._file.write(data)
            why = 'disk full' if written < len(data) else ''
        except OSError as error:
            why = error.strerror
        if why and self._complete:
            self._complete = False
            self._console.say(f'{self._file.name} is not complete: {why}')
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


def tail(path: pathlib.Path, lines: int = 20) -> list[str]:
    """The last lines of a log, as text; [] if it cannot be read."""
    with contextlib.suppress(OSError), open(path, 'rb') as file:
        file.seek(max(0, path.stat().st_size - 64 * 1024))
        return file.read().decode(errors='replace').splitlines()[-lines:]
    return []


def new_attempt(log_dir: str | None) -> pathlib.Path:
    """Makes the folder of one attempt: log_dir/attempt-N, N one more than the last there is.

    Without a `log_dir` it is in a new temporary folder.

    Raises:
      OSError: it cannot be made.
    """
    parent = pathlib.Path(log_dir or tempfile.mkdtemp(prefix='estimator_trainer-logs-'))
    parent.mkdir(parents=True, exist_ok=True)
    taken = [re.fullmatch(r'attempt-(\d+)', entry.name) for entry in parent.iterdir()]
    number = max((int(match[1]) for match in taken if match), default=0) + 1
    while True:
        folder = parent / f'attempt-{number}'
        try:
            folder.mkdir()
            return folder.absolute()
        except FileExistsError:  # another supervisor was quicker
            number += 1
