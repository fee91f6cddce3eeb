"""What a program takes over from whoever starts it and cannot work with. The programs that
people start call `mend` before anything else.

1. Standard descriptors that are closed (`2>&-`). The next file or socket would get the number, and whatever writes to
   standard error, such as C code, would write into it.
2. A SIGCHLD that is ignored (`trap '' CHLD`, some service managers). The kernel takes the exit codes of children itself
   then, and a child that has failed seems to have ended well.
3. Standard output and error that nobody reads: `--help | head -1`, a terminal that was closed. Python raises an
   exception if a program writes to such a pipe or terminal. Nobody needs the output, and its loss must not end a
   program that has something else to do.
"""

import errno
import io
import os
import signal
import sys
import threading
from typing import Any, TextIO

_STREAMS = (('stdin', 'r', os.O_RDONLY), ('stdout', 'w', os.O_WRONLY), ('stderr', 'w', os.O_WRONLY))


def mend() -> None:
    open_standard_descriptors()
    keep_exit_codes()
    outlive_readers()


def open_standard_descriptors() -> None:
    """Opens those of the descriptors 0, 1 and 2 that are closed on /dev/null. Children inherit them."""
    for number, (name, mode, flag) in enumerate(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, flag)
            if opened == number:  # as it is where the lower ones are open
                os.set_inheritable(number, True)
            else:
                os.dup2(opened, number)
                os.close(opened)
            if getattr(sys, name) is None:
                setattr(sys, name, open(number, mode, encoding='utf-8', errors='replace', closefd=False))


def keep_exit_codes() -> None:
    """Lets this process have the exit codes of its children. Only the main thread can do that."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


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
