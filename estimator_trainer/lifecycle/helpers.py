"""The processes that a job has started and not ended: what they are, and their end. Linux only.

Helpers are the descendants of this process in its own process group. One that has made a group or a session
of its own was detached on purpose, and is left alone. So is the resource tracker of `multiprocessing`: it
removes what others have forgotten, and ends by itself when the last of them has ended.
"""

import contextlib
import ctypes
import dataclasses
import os
import pathlib
import signal
import time

_PROC = pathlib.Path('/proc')
_TRACKER = b'multiprocessing.resource_tracker'
_PR_SET_CHILD_SUBREAPER = 36
_TERM_SECS = 3  # from SIGTERM to SIGKILL
_KILL_SECS = 2  # from SIGKILL to the end; the kernel takes longer where a disk does not answer
_LOOK_SECS = 0.05


@dataclasses.dataclass(frozen=True)
class _Process:
    """`start`: in clock ticks since boot. With it a number that was used again is told apart."""

    pid: int
    parent: int
    group: int
    start: int


def left() -> list:
    """The helpers that live, as (pid, start) pairs."""
    children = {}
    for process in _all():
        children.setdefault(process.parent, []).append(process)
    found, group, look_at = [], os.getpgid(0), [os.getpid()]
    while look_at:
        for process in children.get(look_at.pop(), ()):
            look_at.append(process.pid)
            if process.group == group and not _is_tracker(process.pid):
                found.append((process.pid, process.start))
    return found


def end() -> list:
    """Ends all helpers: SIGTERM, and SIGKILL to those that are left a few seconds later. Bounded.

    Returns:
        The pids of all that were told.
    """
    helpers = set()
    _adopt_orphans()
    if _tell(helpers, signal.SIGTERM, _TERM_SECS):
        _tell(helpers, signal.SIGKILL, _KILL_SECS)
    return sorted(pid for pid, _ in helpers)


def _tell(helpers, signum, secs):
    """Sends a signal to every helper once. The set grows: a helper may start another one, and one whose parent
    has ended is no descendant any more. The helpers that live when all have ended or the time is up."""
    deadline, told, seen = time.monotonic() + secs, set(), None
    while True:
        helpers.update(left())
        alive = {helper for helper in helpers if _lives(*helper)}
        for pid, _ in alive - told:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signum)
        told |= alive
        if not (helpers and (alive or helpers != seen)) or time.monotonic() >= deadline:
            return alive
        seen = set(helpers)
        time.sleep(_LOOK_SECS)


def _adopt_orphans():
    """From here on a helper whose parent ends becomes a child of this process, and is not lost sight of."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _lives(pid, start) -> bool:
    process = _read(pid)
    return process is not None and process.start == start


def _all():
    try:
        names = os.listdir(_PROC)
    except OSError:  # no Linux
        return
    for name in names:
        if name.isdigit():
            process = _read(int(name))
            if process:
                yield process


def _read(pid):
    """None where it has ended; a zombie has."""
    try:
        text = (_PROC / str(pid) / 'stat').read_text(encoding='ascii', errors='replace')
        state, parent, group, *rest = text.rpartition(')')[2].split()
        return None if state in 'ZX' else _Process(pid, int(parent), int(group), int(rest[16]))
    except (OSError, ValueError, IndexError):
        return None


def _is_tracker(pid) -> bool:
    try:
        return _TRACKER in (_PROC / str(pid) / 'cmdline').read_bytes()
    except OSError:
        return False
