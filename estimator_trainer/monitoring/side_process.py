"""A process of our own beside a run: the page, the trackers and the reading of profiles must hold up no step."""

import contextlib
import os
import threading
from collections.abc import Callable, Sequence

from estimator_trainer.this_process.child_process import DEVNULL, KILLED_SECS, PIPE, Child, TookTooLong

_LAST_WORDS_SECS = 1  # for the last lines of a process that has ended
_POLITELY = ('nice', '-n', '19')


class SideProcessFailed(Exception):
    """The process could not be started, failed, or took too long. The text is one line without a stop."""


class RunIsOver(SideProcessFailed):
    """`kill` has ended the process, or it was called before."""


class SideProcess:
    """Starts one process at a time.

    The process is not tied to this one between fork and exec, because this one may have TensorFlow's threads. A command
    that must not outlive the run ties itself to the number of this process, which it gets as an argument.

    Args:
        command: the command line, which the arguments of a start follow.
        cwd: the folder in which it starts; None: that of this process then, which the job may have changed.
        is_polite: whether it gets as little of the processor as possible.
    """

    def __init__(self, command: Sequence[str], cwd: str | os.PathLike[str] | None = None, is_polite: bool = False):
        self._command = (*_POLITELY, *command) if is_polite else command
        self._cwd, self._is_over = cwd, False
        self._process: Child | None = None
        self._reader: threading.Thread | None = None

    def run(self, *arguments: str, secs: float) -> str:
        """Runs the command for at most `secs`, and returns its stdout. Raises SideProcessFailed."""
        with self._start(arguments, stderr=PIPE) as process:
            try:
                output = process.finish(secs)
            except TookTooLong as error:
                raise SideProcessFailed(str(error)) from None
        if self._is_over:
            raise RunIsOver('training is over')
        if output.code:
            raise SideProcessFailed(output.last_line.removeprefix('error: '))
        return output.out.decode(errors='replace')

    def start(self, *arguments: str) -> None:
        """Starts the command, which listens on its stdin and goes on until `end`. Raises SideProcessFailed."""
        self._start(arguments, stdin=PIPE)

    def pass_on(self, say: Callable[[str], None]) -> None:
        """Lets a thread call `say` with each line of the stdout of what was started."""

        def read() -> None:
            for line in self._process.lines() if self._process else ():
                say(line)

        reader = threading.Thread(target=read, name='side process', daemon=True)
        with contextlib.suppress(RuntimeError):  # too many processes of this user
            reader.start()
            self._reader = reader

    def tell(self, word: str) -> None:
        """Writes a line to the stdin of what was started."""
        with contextlib.suppress(OSError):  # it has ended
            if self._process and self._process.stdin:
                self._process.stdin.write(f'{word}\n'.encode())

    def poll(self) -> int | None:
        """The exit code of the process, or minus the number of the signal that ended it; None: it runs, or none was
        started."""
        return self._process.poll() if self._process else None

    def kill(self) -> None:
        """Ends the process, with the helpers that it has started. None is started any more. Any thread may call it."""
        self._is_over = True
        if self._process:
            with contextlib.suppress(OSError):
                self._process.kill()

    def end(self) -> None:
        """Kills the process, and waits a bounded time for its last lines."""
        self.kill()
        if self._process:
            self._process.wait(KILLED_SECS)
            if self._reader:
                self._reader.join(_LAST_WORDS_SECS)
            if not (self._reader and self._reader.is_alive()):  # a process that left its group may hold the pipe
                self._process.close()

    def _start(self, arguments: Sequence[str], stdin: int = DEVNULL, stderr: int = DEVNULL) -> Child:
        if self._is_over:
            raise RunIsOver('training is over')
        try:
            process = self._process = Child(
                [*self._command, *arguments], stdin=stdin, stdout=PIPE, stderr=stderr, ties=False, cwd=self._cwd
            )
        except OSError as error:
            raise SideProcessFailed(str(error.strerror)) from error
        if self._is_over:  # `kill` may have looked before the process was there
            process.kill()
        return process
