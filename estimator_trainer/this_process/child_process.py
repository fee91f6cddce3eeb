"""Processes that this one starts: `Child` starts, signals, reads, awaits and ends one.

Each child leads a session and a process group of its own, so that a Ctrl-C reaches this process alone. When a child has
ended, whatever is left of its group is killed. When this process is killed itself, the kernel kills the child, but not
the helper processes that the child has started.
"""

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import connection
from typing import IO, NamedTuple

from estimator_trainer.this_process.parent_process import tie_to_parent
from tf_config import inherited

DEVNULL, PIPE, STDOUT = subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT

_READ_BYTES = 1 << 20  # more than a pipe holds, so that one read takes everything
_FIRST_PAUSE_SECS, _LONGEST_PAUSE_SECS = 0.0005, 0.05  # between two looks at a child that is awaited
UNKNOWN_CODE = 1  # of a child whose exit code somebody else has taken: it may have failed
KILLED_SECS = 30  # for a killed process to end; the kernel frees its memory meanwhile
_LINE_END = re.compile(rb'\r\n|\n|\r')  # a pattern of a whole line would take quadratic time on a text without an end


class TookTooLong(Exception):
    """A child did not end within its time, and was killed."""


class Output(NamedTuple):
    """How a child ended (minus N if signal N ended it), and what it wrote to its pipes."""

    code: int
    out: bytes
    err: bytes

    @property
    def last_line(self) -> str:
        """The last line of stderr; without one, the exit code."""
        lines = self.err.decode(errors='replace').strip().splitlines()
        return lines[-1] if lines else f'its process ended with {self.code}'


class Lines:
    r"""Cuts a stream of bytes into lines, which end with '\n', '\r\n' or '\r'.

    Progress bars that draw with '\r' become lines, and the empty ones among these are dropped. A line that is longer
    than `limit` bytes comes in pieces, so that a child that ends no line cannot fill the memory.
    """

    def __init__(self, limit: int = 64 * 1024):
        self._limit = limit
        self._rest = b''
        self._after_cr = False

    def feed(self, data: bytes) -> list[bytes]:
        """The lines, without their ends, that `data` completes. It must not be empty."""
        text = self._rest + (data.removeprefix(b'\n') if self._after_cr else data)
        self._after_cr = data.endswith(b'\r')  # a '\n' that comes next belongs to it
        lines, end = [], 0
        for match in _LINE_END.finditer(text):
            line, end = text[end : match.start()], match.end()
            if line or match[0] != b'\r':
                lines += self._pieces(line)
        *full, self._rest = self._pieces(text[end:])
        return lines + full

    def close(self) -> list[bytes]:
        """The text after the last line end, as a line."""
        rest, self._rest = self._rest, b''
        return [rest] if rest else []

    def _pieces(self, line: bytes) -> list[bytes]:
        starts = range(0, max(1, len(line)), self._limit)
        return [line[start : start + self._limit] for start in starts]


def has_ended(popen: subprocess.Popen[bytes]) -> bool:
    """Whether a child has ended. It stays to be awaited, so that no other process gets its number meanwhile."""
    if popen.returncode is not None or not hasattr(os, 'waitid'):  # macOS, before Python 3.13
        return popen.poll() is not None
    try:
        return os.waitid(os.P_PID, popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # something else has awaited it
        return True


def stop(children: Sequence['Child'], secs: float) -> None:
    """Sends SIGTERM to all, gives them so many seconds together to end, and closes them."""
    for child in children:
        child.send(signal.SIGTERM)
    give_up_at = time.monotonic() + secs
    for child in children:
        child.wait(max(0.0, give_up_at - time.monotonic()))
        child.close()


class Child:
    """A child process that has been started. As a context manager it is closed at the end.

    Args:
        argv: the command line.
        env: the whole environment; None: the environment of this process.
        cwd: the folder in which it starts; None: that of this process.
        stdin, stdout, stderr: as subprocess.Popen takes them.
        ties: ties the child to this process between fork and exec. A process whose libraries have threads passes
            False, and a command that ties itself (`parent_process.tying`).
        cores: the child is pinned to these, if there are any.
        ignored: signals that the child ignores until it handles them.

    Attributes:
        pid: the number of the process and of its group.
        stdin: the file that writes to its stdin, if that is a pipe.
        stdout, stderr: the descriptors of its pipes, which never block; -1 where it has no pipe.
        open_pipes: those descriptors of which the end has not been read.

    Raises (on creation):
        OSError: the child cannot be started.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        stdin: int | None = DEVNULL,
        stdout: int | IO | None = None,
        stderr: int | IO | None = None,
        ties: bool = True,
        cores: Sequence[int] = (),
        ignored: Sequence[signal.Signals] = (),
    ):
        parent = os.getpid()
        inherited.keep_exit_codes()  # a program that uses this package as a library may have been started otherwise

        def before_exec() -> None:  # it takes no lock, because another thread of this process may hold that
            tie_to_parent(parent)
            for signum in ignored:
                signal.signal(signum, signal.SIG_IGN)
            if cores:
                os.sched_setaffinity(0, cores)

        try:
            self._popen = subprocess.Popen(
                argv,
                env=env,
                cwd=cwd,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                bufsize=0,
                start_new_session=True,
                preexec_fn=before_exec if ties else None,
            )
        except subprocess.SubprocessError as error:  # `before_exec` has failed
            raise OSError(str(error)) from error
        self._taking = threading.RLock()  # the exit code: a second thread would find it gone
        self.pid, self.stdin = self._popen.pid, self._popen.stdin
        self.stdout, self.stderr = (pipe.fileno() if pipe else -1 for pipe in (self._popen.stdout, self._popen.stderr))
        self._lines = {descriptor: Lines() for descriptor in (self.stdout, self.stderr) if descriptor >= 0}
        for descriptor in self._lines:
            os.set_blocking(descriptor, False)

    def __enter__(self) -> 'Child':
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def open_pipes(self) -> tuple[int, ...]:
        return tuple(self._lines)

    def poll(self) -> int | None:
        """None while it runs; else its exit code, or minus the number of the signal that ended it. Never waits.

        It is UNKNOWN_CODE where somebody else has taken it. When the child has ended, whatever is left of its group is
        killed.
        """
        with self._taking:
            if self._popen.returncode is None:
                if not has_ended(self._popen):
                    return None  # it may end now: the rest of its group has to be killed before it is awaited
                self._signal_group(signal.SIGKILL)  # before another process can have its number
                self._take_code()
            return self._popen.returncode

    def wait(self, secs: float = float('inf')) -> int | None:
        """As `poll`, once it has ended or `secs` have passed."""
        until, pause = time.monotonic() + secs, _FIRST_PAUSE_SECS
        while (code := self.poll()) is None and (left := until - time.monotonic()) > 0:
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE_SECS)
        return code

    def send(self, signum: int) -> None:
        """Sends SIGKILL to the group and any other signal to its leader. Does nothing after the end.

        On SIGTERM a trainer finishes its step and saves. It needs the helper processes of its job for that, and ends
        them itself.
        """
        if self._popen.returncode is not None:
            return
        if signum == signal.SIGKILL:
            self._signal_group(signum)
        else:
            os.kill(self.pid, signum)  # Popen's own method looks first whether the process has ended

    def kill(self) -> None:
        self.send(signal.SIGKILL)

    def give(self, data: bytes) -> None:
        """Writes `data` to its stdin, a pipe, and closes that. Raises BrokenPipeError if nobody reads it any more."""
        assert self.stdin is not None
        with self.stdin:
            rest = memoryview(data)
            while rest:
                rest = rest[self.stdin.write(rest) :]

    def finish(self, secs: float) -> Output:
        """Waits until it has ended and closed its pipes. Raises TookTooLong, once it is killed."""
        until = time.monotonic() + secs
        written: dict[int, list[bytes]] = {self.stdout: [], self.stderr: []}
        if self.stdin:
            self.stdin.close()
        while self._lines and (left := until - time.monotonic()) > 0:
            for descriptor in connection.wait(self.open_pipes, left):
                assert isinstance(descriptor, int)
                data = self.read(descriptor)
                if data == b'':
                    del self._lines[descriptor]
                written[descriptor].append(data or b'')
        code = self.wait(until - time.monotonic()) if not self._lines else None
        if code is None:
            self.close()
            raise TookTooLong(f'it took longer than {secs:g} s')
        return Output(code, b''.join(written[self.stdout]), b''.join(written[self.stderr]))

    def read(self, descriptor: int) -> bytes | None:
        """The bytes that one of its pipes holds. b'' at the end of the pipe; None if it holds nothing now."""
        with contextlib.suppress(BlockingIOError):
            return os.read(descriptor, _READ_BYTES)
        return None

    def read_lines(self, descriptor: int) -> list[str]:
        """The lines that it has completed on one of its open pipes since the last call. Never waits."""
        data = self.read(descriptor)
        if data is None:
            return []
        lines = self._lines[descriptor].feed(data) if data else self._lines.pop(descriptor).close()
        return [line.decode(errors='replace') for line in lines]

    def lines(self) -> Iterator[str]:
        """All lines that it writes to its pipes, as they come."""
        while self._lines:
            for descriptor in connection.wait(self.open_pipes):
                assert isinstance(descriptor, int)
                yield from self.read_lines(descriptor)

    def close(self) -> None:
        """Kills what is left of its group, takes its exit code from the kernel, and closes its pipes.

        A process that the kernel holds, such as for a file of a server that is gone, is not awaited for ever.
        """
        self.kill()
        self.wait(KILLED_SECS)
        for pipe in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
            if pipe:
                with contextlib.suppress(OSError):  # a stdin that nobody reads
                    pipe.close()

    def _take_code(self) -> None:
        """Takes the exit code of the child, which has ended, from the kernel. Popen calls it 0 if it is not there."""
        if self._popen.returncode is None:  # `has_ended` takes it on macOS
            try:
                self._popen.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            except ChildProcessError:
                self._popen.returncode = UNKNOWN_CODE

    def _signal_group(self, signum: int) -> None:
        # No such group: all have ended. Not permitted: macOS, for a group of zombies.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signum)
