"""Finds and ends the helper processes that the job has started and has not ended. Linux only.

Helpers are the descendants of this process in its own process group. A process with a group or a session of its own
was detached on purpose, and this module leaves it alone. It also leaves the resource tracker of `multiprocessing`
alone: the tracker removes what the others have left behind, and ends after the last of them.
"""

import contextlib
import ctypes
import dataclasses
import os
import pathlib
import signal
import time
from collections.abc import Iterator

_PROC = pathlib.Path('/proc')
_TRACKER = b'multiprocessing.resource_tracker'
_PR_SET_CHILD_SUBREAPER = 36
_TERM_SECS = 3  # from SIGTERM to SIGKILL
_KILL_SECS = 2  # from SIGKILL to the end; the kernel takes longer if a disk does not answer
_LOOK_SECS = 0.05


@dataclasses.dataclass(frozen=True)
class _Process:
    """`start`: in clock ticks since boot. It tells two processes apart if the kernel uses a pid again."""

    pid: int
    parent: int
    group: int
    start: int


def left() -> list[tuple[int, int]]:
    """The living helpers, as (pid, start)."""
    children: dict[int, list[_Process]] = {}
    for process in _all():
        children.setdefault(process.parent, []).append(process)
    living, group, look_at = [], os.getpgid(0), [os.getpid()]
    while look_at:
        for process in children.get(look_at.pop(), ()):
            look_at.append(process.pid)
            if process.group == group and not _is_tracker(process.pid):
                living.append((process.pid, process.start))
    return living


def end() -> list[int]:
    """Ends all helpers within a few seconds: SIGTERM first, then SIGKILL to those that still live.

    Returns:
        The pids of all helpers.
    """
    helpers: set[tuple[int, int]] = set()
    _adopt_orphans()
    if _send(helpers, signal.SIGTERM, _TERM_SECS):
        _send(helpers, signal.SIGKILL, _KILL_SECS)
    return sorted(pid for pid, _ in helpers)


def _send(helpers: set[tuple[int, int]], signum: signal.Signals, secs: float) -> set[tuple[int, int]]:
    """Sends a signal once to every helper. Returns those that still live after `secs`, or none once all have ended.

    It adds new helpers to `helpers`, for helpers start others. And it keeps the known ones: a process whose parent
    has ended may be no descendant of ours any more.
    """
    deadline, sent, seen = time.monotonic() + secs, set[tuple[int, int]](), set[tuple[int, int]]()
    while True:
        helpers.update(left())
        alive = {helper for helper in helpers if _lives(*helper)}
        for pid, _ in alive - sent:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signum)
        sent |= alive
        if not (helpers and (alive or helpers != seen)) or time.monotonic() >= deadline:
            return alive
        seen = set(helpers)
        time.sleep(_LOOK_SECS)


def _adopt_orphans() -> None:
    """Makes a helper whose parent ends a child of this process, so that `left` still finds it."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _lives(pid: int, start: int) -> bool:
    process = _read(pid)
    return process is not None and process.start == start


def _all() -> Iterator[_Process]:
    try:
        names = os.listdir(_PROC)
    except OSError:  # not Linux
        return
    for name in names:
        if name.isdigit():
            process = _read(int(name))
            if process:
                yield process


def _read(pid: int) -> _Process | None:
    """None if the process has ended; a zombie has."""
    try:
        text = (_PROC / str(pid) / 'stat').read_text(encoding='ascii', errors='replace')
        state, parent, group, *rest = text.rpartition(')')[2].split()
        return None if state in 'ZX' else _Process(pid, int(parent), int(group), int(rest[16]))
    except (OSError, ValueError, IndexError):
        return None


def _is_tracker(pid: int) -> bool:
    try:
        return _TRACKER in (_PROC / str(pid) / 'cmdline').read_bytes()
    except OSError:
        return False
