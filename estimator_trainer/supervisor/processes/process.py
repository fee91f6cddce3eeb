"""One task as a process, which leads a group. When its end is seen, or it is closed, what is left of the group is
killed. If this process is killed itself, the kernel kills the leader, but not the helpers that the leader has started.
"""

import contextlib
import os
import signal
import subprocess

from estimator_trainer.run_dir.protocol import PROFILE_SIGNAL
from estimator_trainer.supervisor.policy.task_commands import TaskCommand
from estimator_trainer.this_process.parent_process import tie_to_parent


def has_ended(popen: subprocess.Popen) -> bool:
    """Whether this child has ended. Its number, and that of its group, stay its own until somebody waits for it."""
    if popen.returncode is not None or not hasattr(os, 'waitid'):  # macOS, before Python 3.13
        return popen.poll() is not None
    try:
        return os.waitid(os.P_PID, popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # somebody else has waited for it
        return True


class ProcessGroup:
    """A process that leads a group, and was started for that."""

    def __init__(self, popen: subprocess.Popen):
        self._popen = popen
        self.pid = popen.pid

    def poll(self) -> int | None:
        """None while it runs; else its exit code, or minus the number of the signal.

        When the leader is found to have ended, what is left of its group is killed.
        """
        if self._popen.returncode is None:
            if not has_ended(self._popen):
                return None  # it may end now: what is left of its group has to be killed before it is waited for
            self._signal_group(signal.SIGKILL)  # before its number can be a stranger's
        return self._popen.poll()

    def send(self, signum: signal.Signals) -> None:
        """SIGKILL goes to the group, others to its leader; nothing after its end.

        On SIGTERM the leader finishes its step and saves. It needs the helper processes of its job for that,
        and ends them itself.
        """
        if self._popen.returncode is not None:
            return
        if signum == signal.SIGKILL:
            self._signal_group(signum)
        else:
            os.kill(self._popen.pid, signum)  # Popen's own looks first whether it has ended

    def _signal_group(self, signum: int) -> None:
        # No such group: all have ended. Not permitted: macOS, for a group of zombies.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, signum)


class Process(ProcessGroup):
    """A started TaskCommand. `stdout` and `stderr` are non-blocking file descriptors to read.

    Raises (on creation):
      OSError: it cannot be started.
    """

    def __init__(self, command: TaskCommand):
        parent = os.getpid()

        def before_exec():  # between fork and exec: no lock that another thread (console.py) may hold
            tie_to_parent(parent)
            signal.signal(PROFILE_SIGNAL, signal.SIG_IGN)  # until the task is ready for it
            if command.cores:
                os.sched_setaffinity(0, command.cores)

        popen = subprocess.Popen(
            command.argv,
            env=command.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # Ctrl-C goes to the supervisor alone
            preexec_fn=before_exec,
        )
        super().__init__(popen)
        assert popen.stdout and popen.stderr  # both are pipes
        self._pipes = popen.stdout, popen.stderr
        self.stdout, self.stderr = popen.stdout.fileno(), popen.stderr.fileno()
        os.set_blocking(self.stdout, False)
        os.set_blocking(self.stderr, False)

    def close(self) -> None:
        """Kills the group if need be, takes the exit code from the kernel, closes the pipes."""
        self.send(signal.SIGKILL)
        self._popen.wait()
        for pipe in self._pipes:
            pipe.close()
