"""What a forked child has to give up before it runs any code of the job's. Imports nothing of ours.

A fork without exec copies the whole process: signal handlers, the descriptor that Python's C code writes
signals to, and the descriptors of locks. A child that kept them would hand its own signals to its parent,
and would hold its parent's locks after the parent is dead. So whoever sets up such a thing registers here
how a child gets rid of it:

    with forks.none_meanwhile():  # no child may be made between the two
        descriptor = os.open(...)
        forks.in_child(give_up)

The signals below wait while a child is made: one that came before the child has given up the handlers
would arrive in the parent.
"""

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator

_NO_MORE_SECS = 1  # for a fork that is under way; a thread in one holds up nobody's end
_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}

_functions: list = []
_mutex = threading.Lock()
_mask: set = set()  # signals that the thread which forks had blocked before; guarded by _mutex


def in_child(function: Callable[[], object]) -> None:
    """Makes every forked child call `function()` before anything else. The latest function is called first."""
    _functions.append(function)


def forget(function: Callable[[], object]) -> None:
    """Takes `in_child` back. In a child nothing is left to take back."""
    with contextlib.suppress(ValueError):
        _functions.remove(function)


@contextlib.contextmanager
def none_meanwhile() -> Iterator[None]:
    """No thread of this process forks within it. Must not fork itself, nor wait for anything."""
    with _mutex:
        yield


def no_more() -> None:
    """Keeps all threads of this process from forking: it ends, and would leave children behind. A fork that calls exec
    comes by no hook: see compat/patches/child_processes.py."""
    _mutex.acquire(timeout=_NO_MORE_SECS)


@contextlib.contextmanager
def parent_only() -> Iterator[None]:
    """Around a call of the job's code. If the job forks (os.fork) and the child returns, raises or exits, the child
    ends here instead of running the trainer's code."""
    parent, raised = os.getpid(), None
    try:
        yield
    except BaseException as error:
        if os.getpid() == parent:
            raise
        raised = error
    end_child_of(parent, raised)


def end_child_of(parent: int, error: BaseException | None = None) -> None:
    """Ends this process if it is not `parent` but a child of it, as the interpreter would after `error`."""
    if os.getpid() == parent:
        return
    code = 0 if error is None else _exit_code(error)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # closed, or nobody reads it
            stream.flush()
    os._exit(code)


def _exit_code(error: BaseException) -> int:
    """As the interpreter ends with: says what went wrong."""
    if isinstance(error, SystemExit) and isinstance(error.code, (int, type(None))):
        return (error.code or 0) & 0xFF
    with contextlib.suppress(AttributeError, OSError, ValueError):
        if isinstance(error, SystemExit):
            print(error.code, file=sys.stderr)
        else:
            traceback.print_exception(error)
    return 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1


def _before() -> None:
    global _mask
    _mutex.acquire()
    _mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)


def _in_parent() -> None:
    mask = _mask
    _mutex.release()
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _in_child() -> None:
    functions, _functions[:] = list(_functions), []
    try:
        with contextlib.ExitStack() as stack:  # all of them, whatever one raises
            for function in functions:
                stack.callback(function)
    finally:
        _in_parent()


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
