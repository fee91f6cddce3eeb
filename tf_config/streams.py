"""Standard output and error that outlive their reader: `--help | head -1`, a terminal that was closed.

Python raises an exception where a program writes to a pipe that nobody reads any more, or to a terminal
that has been closed. What such a write says is of no use to anybody, and must not end a program that has
something else to do. Every command of this project calls `outlive_readers` before anything else.
"""

import errno
import io
import sys


def outlive_readers() -> None:
    """From here on what is written to sys.stdout and sys.stderr is dropped once nobody can read it."""
    sys.stdout, sys.stderr = _outliving(sys.stdout), _outliving(sys.stderr)


class _Descriptor(io.FileIO):
    """A descriptor to write to. Its number is left open at the end."""

    def __init__(self, number):
        super().__init__(number, 'w', closefd=False)
        # A terminal that has been closed says EIO. A disk that says so is another matter.
        self._nobody_reads = {errno.EPIPE, errno.EIO} if self.isatty() else {errno.EPIPE}

    def write(self, data):
        try:
            return super().write(data)
        except OSError as error:
            if error.errno in self._nobody_reads:
                return memoryview(data).nbytes
            raise


def _outliving(stream):
    if not isinstance(stream, io.TextIOWrapper):  # closed, or a test's
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
