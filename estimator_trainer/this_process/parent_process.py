"""The process that has started this one: a child that is tied to it does not outlive it.

A process whose libraries have threads, such as TensorFlow's or Ray's, cannot safely run Python between fork and exec.
It starts `tying(COMMAND)`, a program of its own, which ties itself and then becomes the command:

    python -IS parent_process.py PARENT COMMAND [ARGUMENT ...]
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

NOT_FOUND = 127  # the exit code of a shell that does not find a command
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == 'linux' else None  # loaded before any fork


def tie_to_parent(parent: int) -> None:
    """In a new child: the kernel kills it when `parent` dies, however it dies. Linux only."""
    if _LIBC is None:
        return
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the line above
        os.kill(os.getpid(), signal.SIGKILL)


def call_at_parents_end(function: Callable[[], object]) -> None:
    """In a child that is tied: calls this in place of SIGKILL, by SIGUSR1, to do what is left within a bounded time.
    Linux only."""
    parent = os.getppid()

    def ended(signum: int, frame: object) -> None:
        if os.getppid() != parent:  # else somebody has signalled all processes of the task
            function()

    if _LIBC is not None:
        signal.signal(signal.SIGUSR1, ended)
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGUSR1, 0, 0, 0)


def tying(command: tuple[str, ...]) -> tuple[str, ...]:
    """The command line that ties its process to this one and becomes `command`."""
    return (sys.executable, '-IS', os.path.abspath(__file__), str(os.getpid()), *command)


def main(parent: str, *argv: str) -> int:
    """Becomes the command, and returns only if that is not possible."""
    tie_to_parent(int(parent))
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        print(f'{argv[0]}: {error.strerror}', file=sys.stderr)
    return NOT_FOUND


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
