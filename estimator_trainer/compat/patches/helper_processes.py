"""Keeps Ctrl-C from helpers that `multiprocessing` starts by exec, and stops the start of processes while a task ends.

Touches: multiprocessing.util.spawnv_passfds, subprocess.Popen._execute_child and multiprocessing.process.BaseProcess
Without it: Ctrl-C also ends the helpers that feed a task before it has saved; and a thread that starts a process while
  its task ends leaves that process behind
For: the trainer
"""

import signal
import subprocess
import sys
import threading
from multiprocessing import util


def start_none() -> None:
    """From here on a thread that starts a process waits: this one ends. `forks.no_more` is the same for forks."""
    subprocess.Popen._execute_child = _wait  # these call exec, and so come by no hook
    if 'multiprocessing.process' in sys.modules:
        sys.modules['multiprocessing.process'].BaseProcess.start = _wait


def _wait(*args, **kwargs):
    """For the end of this process, which is near. An exception would only be noise."""
    threading.Event().wait()


def keep_ctrl_c_away() -> None:
    """From here on helpers that `multiprocessing` starts by exec (spawn, forkserver) have SIGINT blocked: Ctrl-C,
    which a terminal sends to all processes of a group, is this process's. A second call changes nothing."""
    start = util.spawnv_passfds
    if getattr(start, 'blocks', False):
        return

    def blocking(*args):
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # a mask survives exec, a handler does not
        try:
            return start(*args)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    blocking.blocks = True
    util.spawnv_passfds = blocking
