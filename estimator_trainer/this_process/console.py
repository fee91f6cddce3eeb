"""Lines to our stdout and stderr, where a reader may stall: `| less`, Ctrl-S, a pipe that nobody reads.

A write to a full pipe or a stopped terminal waits for its reader, and the supervisor has one thread for everything. So
each Console has a thread that does nothing but write, and holds what is to be written in a buffer of bounded size. The
descriptor is not made non-blocking: other programs share it.

The thread is started by the first line: the process is moved into another network (isolate.py) before, which takes a
process of one thread. Tasks are forked beside it; between fork and exec they touch nothing of this module.
"""

import collections
import contextlib
import errno
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TextIO

from estimator_trainer.this_process import last_line

MOST_BYTES = 4 << 20  # held for the reader: tens of thousands of lines, seconds of a talkative task
MORE_FOR_OURS = 64 << 10  # for lines of the supervisor's, which stand in no other file
PATIENCE_SECS = 1.0  # for a reader that is slower than the tasks; they wait for it meanwhile
DRAIN_SECS = 3.0  # for the reader at the end
_AT_A_TIME = 64 << 10  # bytes; what a pipe holds
_GATHER_SECS = 0.1  # for lines above a last line, which is drawn again below them
_HIDE_SECS = 0.5  # for a last line to be erased
_NOBODY = (errno.EPIPE, errno.EBADF)  # nobody reads it any more
_COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)  # SGR codes; red is left to errors


class Console:
    """Writes whole lines to a file descriptor, and never waits long for whoever reads it.

    While the buffer is full, lines are left out; when there is room again a line says how many they were and where
    they are. So it is where a write fails, such as to a file on a full disk. When nobody reads any more (`| head`) the
    rest is dropped. The log files have it all.

    Args:
      fd: None: there is nothing to write to.
      colour: of the names of tasks.
      line: that is drawn below all others; None: there is none.

    Attributes:
      kept_in: where the lines stand as well, as a line may say it.
    """

    def __init__(self, fd: int | None, colour: bool, line: last_line.LastLine | None = None):
        self._fd, self._colour, self._line = fd, colour, line
        self.kept_in = 'the log files'
        self._changed = threading.Condition()  # guards all that follows, and the writing of _fd
        self._chunks: collections.deque[bytes] = collections.deque()
        self._held = 0  # bytes that are not written yet
        self._full_since: float | None = None
        self._left_out = 0  # lines, since the buffer was full
        self._failed = 0  # lines, since a write failed
        self._closing = False
        self._redraw = False  # the last line
        self._busy = False  # the thread writes
        self._thread: threading.Thread | None = None

    @classmethod
    def for_stream(cls, stream: TextIO | None, environ: Mapping[str, str], has_line: bool = False) -> 'Console':
        """The console of sys.stdout or sys.stderr. On a terminal it has colours, unless NO_COLOR is set.

        Args:
          has_line: whether a terminal gets a last line.
        """
        if stream is None:  # it was closed before we were started
            return cls(None, False)
        fd = stream.fileno()
        colour = os.isatty(fd) and not environ.get('NO_COLOR')
        return cls(fd, colour, last_line.for_terminal(fd, environ, bold=colour) if has_line else None)

    @property
    def has_line(self) -> bool:
        return self._line is not None

    def __enter__(self) -> 'Console':
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def prefix(self, name: str, number: int) -> bytes:
        """What the lines of task `name`, the `number`-th, begin with."""
        if not self._colour:
            return f'[{name}] '.encode()
        return f'\x1b[{_COLOURS[number % len(_COLOURS)]}m[{name}]\x1b[0m '.encode()

    def say(self, text: str) -> None:
        """Writes lines of the supervisor's own."""
        lines = text.splitlines()
        data = ''.join(f'[cluster] {line}\n' for line in lines).encode(errors='replace')
        self._write(data, MOST_BYTES + MORE_FOR_OURS, ours=True)

    def write(self, data: bytes) -> None:
        """Writes whole lines of a task's."""
        self._write(last_line.without_moves(data) if self._line else data, MOST_BYTES)

    def show(self, text: Callable[[int], str] | None) -> None:
        """Draws the last line anew; `text` gives it for a number of columns. None: there is no such line any more."""
        with self._changed:
            if self._line and self._fd is not None and not self._closing:
                self._line.text, self._redraw = text, True
                self._start()

    @contextlib.contextmanager
    def without_line(self) -> Iterator[None]:
        """While it is entered, there is no last line. Waits for that, but not long.

        For a signal's handler: the lock is one that the same thread may take again.
        """
        self._hide(True)
        yield
        self._hide(False)

    def _hide(self, hidden: bool) -> None:
        with self._changed:
            if self._line and self._thread:
                self._line.hidden, self._redraw = hidden, True
                self._changed.notify_all()
                done = lambda: self._thread is None or not (self._redraw or self._busy)  # noqa: E731
                self._changed.wait_for(done, _HIDE_SECS)

    def close(self, secs: float | None = None) -> None:
        """Waits until all is written, at most `secs`, or DRAIN_SECS. What is written after this is dropped."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            bound = DRAIN_SECS if secs is None else secs
            self._changed.wait_for(lambda: self._thread is None or self._fd is None, bound)
            self._fd = None

    def _write(self, data: bytes, most: int, ours: bool = False) -> None:
        with self._changed:
            room = lambda: self._fd is None or not self._held or self._held + len(data) <= most  # noqa: E731
            if not ours and not room():  # waits for a reader who is only slow: once, until half of it has been read
                self._full_since = self._full_since or time.monotonic()
                self._changed.wait_for(room, max(0, self._full_since + PATIENCE_SECS - time.monotonic()))
            if not data or self._fd is None:
                return
            if room() and (ours or not self._left_out):
                self._put(data)
            else:
                self._left_out += data.count(b'\n')

    def _put(self, data: bytes) -> None:
        self._chunks.append(data)
        self._held += len(data)
        self._start()

    def _start(self) -> None:
        """Wakes the thread that writes."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name='console', daemon=True)
            with contextlib.suppress(RuntimeError):  # too many processes of this user: the next line tries again
                thread.start()
                self._thread = thread
        self._changed.notify_all()

    # In the thread

    def _run(self) -> None:
        try:
            while (data := self._next()) is not None:
                self._write_out(memoryview(data))
        except OSError:  # nobody reads it any more
            with self._changed:
                self._chunks.clear()
                self._held, self._fd = 0, None
        with self._changed:
            self._thread = None
            self._changed.notify_all()

    def _next(self) -> bytes | None:
        """What is to be written next; None at the end."""
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            if self._line and self._line.drawn:
                urgent = lambda: self._closing or self._line.hidden or self._held >= _AT_A_TIME  # noqa: E731
                self._changed.wait_for(urgent, _GATHER_SECS)
            self._changed.wait_for(lambda: self._chunks or self._closing or self._redraw)
            self._busy, self._redraw = True, False
            if self._line is None:
                return self._chunks.popleft() if self._chunks else None
            return self._with_line(self._line)

    def _with_line(self, line: last_line.LastLine) -> bytes | None:
        lines = b''
        while self._chunks and len(lines) < _AT_A_TIME:
            lines += self._chunks.popleft()
        ends = self._closing and not self._chunks
        line.hidden = line.hidden or ends
        data = line.below(lines)
        self._held += len(data) - len(lines)
        return None if ends and not data else data

    def _write_out(self, data: memoryview) -> None:
        while data:
            with self._changed:
                fd = self._fd
            if fd is None:  # closed: the reader's time is over
                return
            written = 0
            try:
                written = os.write(fd, data[:_AT_A_TIME])
            except BlockingIOError:
                pass
            except OSError as error:
                if error.errno in _NOBODY or (error.errno == errno.EIO and os.isatty(fd)):
                    raise
                self._give_up(data)  # the next line tries again
                return
            if not written:  # somebody made our stdout non-blocking
                room = select.poll()
                room.register(fd, select.POLLOUT)
                room.poll()
            data = data[written:]
            with self._changed:
                self._held -= written
                if self._held <= MOST_BYTES // 2:
                    self._full_since = None
                    self._say_what_is_left_out()
                self._changed.notify_all()

    def _give_up(self, data: memoryview) -> None:
        with self._changed:
            self._held -= len(data)
            self._failed += bytes(data).count(b'\n')
            self._changed.notify_all()

    def _say_what_is_left_out(self) -> None:
        for lines, why in ((self._left_out, 'was not read in time'), (self._failed, 'could not be written')):
            if lines:
                text = f'{lines} lines are left out here, because this console {why}; they are in {self.kept_in}'
                self._put(f'[cluster] {text}\n'.encode(errors='replace'))
        self._left_out = self._failed = 0


def for_this_process(environ: Mapping[str, str], has_line: bool = False) -> tuple[Console, Console]:
    """The consoles of our stdout and stderr: one for both if they are the same file, pipe or terminal, so that lines
    keep their order. With `has_line` one of them has a last line, if it is a terminal."""
    err = Console.for_stream(sys.stderr, environ, has_line)
    out = Console.for_stream(sys.stdout, environ, has_line and not err.has_line)
    same = out._fd is not None and err._fd is not None and os.path.sameopenfile(out._fd, err._fd)
    return (err, err) if same else (out, err)
