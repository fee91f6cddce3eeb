"""supervisor.process: the group of a task that has ended is killed while its number is still its own."""

import os
import signal
import subprocess
import sys

import pytest

from estimator_trainer.supervisor.policy import task_commands
from estimator_trainer.supervisor.processes import process

BOUND_SECS = 20


def wait_for_the_end_of(pid):
    """Without taking the exit code."""
    signal.alarm(BOUND_SECS)
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    finally:
        signal.alarm(0)


@pytest.mark.skipif(not hasattr(os, 'waitid'), reason='macOS')
def test_a_child_that_has_ended_keeps_its_number_until_it_is_waited_for():
    child = subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'], stdin=subprocess.PIPE)
    assert not process.has_ended(child)
    child.stdin.close()
    wait_for_the_end_of(child.pid)
    assert process.has_ended(child) and child.returncode is None
    os.kill(child.pid, 0)  # it is still there
    assert child.wait() == 0 and process.has_ended(child)


@pytest.mark.skipif(not hasattr(os, 'waitid'), reason='macOS')
def test_the_group_is_killed_before_the_number_of_its_leader_is_free(monkeypatch):
    started = process.Process(task_commands.TaskCommand('worker:0', ('sh', '-c', 'exit 3'), dict(os.environ)))
    wait_for_the_end_of(started.pid)
    killed = []

    def kill(group, signum):
        os.kill(group, 0)  # raises ProcessLookupError if nobody has that number any more
        killed.append((group, signum))

    monkeypatch.setattr(os, 'killpg', kill)
    assert started.poll() == 3 and started.poll() == 3
    assert killed == [(started.pid, signal.SIGKILL)]
    started.close()
