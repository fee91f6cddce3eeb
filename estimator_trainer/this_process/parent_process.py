"""The process that has started this one."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == 'linux' else None  # loaded before any fork


def tie_to_parent(parent: int) -> None:
    """In a new child: the kernel kills it when `parent` dies, however it dies. Linux only."""
    if _LIBC is None:
        return
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the line above
        os.kill(os.getpid(), signal.SIGKILL)
