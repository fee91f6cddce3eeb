"""Standard output and error for programs that go on when nobody reads their output: `--help | head -1`, a terminal that
was closed.

Python raises an exception if a program writes to a pipe that nobody reads any more, or to a terminal that has been
closed. Nobody needs such output, and its loss must not end a program that has something else to do. Every command of
this project calls `outlive_readers` before anything else (`inherited.py`).
"""

import errno
import io
import sys
from typing import Any, TextIO


def outlive_readers() -> None:
    """Makes sys.stdout and sys.stderr drop what is written to them once nobody can read it."""
    sys.stdout, sys.stderr = _outliving(sys.stdout), _outliving(sys.stderr)


class _Descriptor(io.FileIO):
    """A file descriptor for output, which stays open when this object is closed."""

    def __init__(self, number: int) -> None:
        super().__init__(number, 'w', closefd=False)
        # A closed terminal fails with EIO. On a disk EIO is a real error.
        self._nobody_reads = {errno.EPIPE, errno.EIO} if self.isatty() else {errno.EPIPE}

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno in self._nobody_reads:
                return memoryview(data).nbytes
            raise


def _outliving(stream: TextIO) -> TextIO:
    if not isinstance(stream, io.TextIOWrapper):  # it is closed, or belongs to a test
        return stream
    raw = _Descriptor(stream.fileno())
    unbuffered = isinstance(stream.buffer, io.RawIOBase)  # python -u
    return io.TextIOWrapper(
        raw if unbuffered else io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
