"""Ends a task, even while its main thread is stuck: its last line, its error file, its exit code."""

import atexit
import contextlib
import dataclasses
import faulthandler
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import NoReturn, TextIO

from estimator_trainer import exit_codes
from estimator_trainer.compat.patches import child_processes
from estimator_trainer.lifecycle import helpers
from estimator_trainer.run_dir import protocol
from estimator_trainer.this_process import forks

_LEAVE_SECS = 30  # for the job's threads (half of the time) and atexit functions to end
_STOPPED_SECS = 6  # the same, for a task that was told to stop: its grace period is running
READER_SECS = 5  # for writing to a pipe whose reader may have stopped reading
_TRACEBACK_LINES = 30


@dataclasses.dataclass(frozen=True)
class End:
    """Why a task ends.

    Attributes:
        code: one of `exit_codes`.
        message: one line for the user: what happened, and what to do.
        peer: the name of the lost task, such as 'worker:1'.
        traceback: its lines.
        follows: this task stops because another task was told to stop.
    """

    code: int
    message: str
    peer: str | None = None
    traceback: tuple[str, ...] = ()
    follows: bool = False

    def recorded(self) -> dict:
        """What the error file and training.json say about it."""
        return {'code': self.code, 'message': self.message, 'traceback': list(self.traceback[-_TRACEBACK_LINES:])}


def record(end: End, task: str, step: int | None, environ: Mapping[str, str]) -> None:
    """Writes the error file, if the environment names one."""
    path = environ.get(protocol.ERROR_FILE)
    if path and end.code != exit_codes.OK:
        try:
            protocol.write_json(
                path,
                {
                    **end.recorded(),
                    'task': task,
                    'step': step,
                    'peer': end.peer,
                    'follows': end.follows,
                    'time': time.time(),
                },
            )
        except OSError as error:
            within(READER_SECS, _say, f'{path}: {error.strerror}')


def report(
    end: End, task: str, step: int | None, environ: Mapping[str, str], before: threading.Thread | None = None
) -> None:
    """Prints the last line, and writes the error file. `before`: writes a line that comes before that one."""
    within(READER_SECS, record, end, task, step, environ)
    if before:
        before.join(READER_SECS)
    at = '' if step is None else f', step {step}'
    within(READER_SECS, _say, f'{task}{at}: {end.message} {exit_codes.after_message(end.code)}')


def print_stacks_on(signum: int) -> None:
    """Makes the process print the stacks of all threads, whatever they do, on each signal of this number."""
    if hasattr(faulthandler, 'register') and _has_descriptor(sys.stderr):
        faulthandler.register(signum, file=sys.stderr, all_threads=True)


def print_stacks() -> None:
    """Prints the stacks of all threads."""
    if _has_descriptor(sys.stderr):
        within(READER_SECS, _dump_stacks)


def _dump_stacks() -> None:
    """faulthandler prints a hundred threads, the newest first. The main thread, the oldest, would be missing then."""
    faulthandler.dump_traceback(sys.stderr, True)
    main = sys._current_frames().get(threading.main_thread().ident or 0)
    lines = [
        f'  File "{frame.f_code.co_filename}", line {number} in {frame.f_code.co_name}'
        for frame, number in traceback.walk_stack(main)
    ]
    print('Main thread (most recent call first):', *lines, sep='\n', file=sys.stderr, flush=True)


def leave(code: int) -> NoReturn:
    """Ends the process as the interpreter does, but within a bounded time, and without the libraries' destructors.

    The destructors of TensorFlow wait for threads, and those may wait for a lost peer. Threads, helper processes
    and atexit functions of the job may never end either.
    """
    secs = _STOPPED_SECS if exit_codes.was_stopped(code) else _LEAVE_SECS
    with contextlib.suppress(RuntimeError):  # the process cannot start threads any more
        threading.Thread(target=_leave_later, args=(secs, code), daemon=True).start()
    try:
        deadline = time.monotonic() + secs / 2
        within(secs / 2, _end_pools)
        for thread in threading.enumerate():
            if not thread.daemon and thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))
        atexit._run_exitfuncs()  # the one of multiprocessing waits for the helpers
    finally:
        leave_now(code)


def leave_now(code: int) -> NoReturn:
    """Ends at once, from any thread, the helper processes of the job and then this process."""
    forks.no_more()
    child_processes.start_none()
    ended = helpers.end()
    if ended:
        within(
            READER_SECS,
            _say,
            f'helper processes of the job were still there and have been ended: {_list(ended)}. '
            'A process that should outlive the task needs a session of its own (start_new_session=True)',
        )
    within(READER_SECS, _flush)
    os._exit(code)


def _leave_later(secs: float, code: int) -> None:
    time.sleep(secs)
    within(
        READER_SECS,
        _say,
        f'the threads, helper processes and atexit functions of the job have not ended within {secs:g} s',
    )
    leave_now(code)


def _list(pids: list[int], most: int = 10) -> str:
    return ', '.join([*map(str, pids[:most]), *(['...'] if len(pids) > most else [])])


def _end_pools() -> None:
    """Makes the idle threads of executors end. The interpreter does this too, before it waits for threads."""
    for function in reversed(threading._threading_atexits):  # type: ignore[attr-defined]
        function()


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # it is closed, or nobody reads it
            stream.flush()


def _say(line: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        print(line, file=sys.stderr, flush=True)


def within(secs: float, function: Callable, *args: object) -> None:
    """Calls a function that may never return, and waits for it at most `secs`."""
    thread = begin(function, *args)
    if thread:
        thread.join(secs)


def begin(function: Callable, *args: object) -> threading.Thread | None:
    """Calls a function that may never return, in a thread; None if it has returned."""
    thread = threading.Thread(target=function, args=args, daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the process cannot start threads any more
        function(*args)
        return None
    return thread


def _has_descriptor(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.fileno() >= 0
    except (AttributeError, OSError, ValueError):
        return False
