"""Children of a few lines of shell, and how they are tied to their parent."""

import os
import signal
import subprocess
import sys

import pytest

from estimator_trainer.this_process import child_process, parent_process
from estimator_trainer.this_process.child_process import PIPE, Child, Lines
from tests.processes import BOUND_SECS, gone, pid_in, until

FOR_EVER = 'exec sleep 600'


def shell(script, **more):
    return Child(('sh', '-c', script), **more)


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
    assert not child_process.has_ended(child)
    child.stdin.close()
    wait_for_the_end_of(child.pid)
    assert child_process.has_ended(child) and child.returncode is None
    os.kill(child.pid, 0)  # it is still there
    assert child.wait() == 0 and child_process.has_ended(child)


@pytest.mark.skipif(not hasattr(os, 'waitid'), reason='macOS')
def test_the_group_is_killed_before_the_number_of_its_leader_is_free(monkeypatch):
    with shell('exit 3') as child:
        wait_for_the_end_of(child.pid)
        killed = []

        def kill(group, signum):
            os.kill(group, 0)  # raises ProcessLookupError if nobody has that number any more
            killed.append((group, signum))

        monkeypatch.setattr(os, 'killpg', kill)
        assert child.poll() == 3 and child.poll() == 3
        assert killed == [(child.pid, signal.SIGKILL)]


def test_a_leader_that_ends_while_it_is_asked_does_not_leave_its_group_behind(tmp_path, monkeypatch):
    with shell('sleep 600 & echo $! > pid', cwd=tmp_path) as child:
        wait_for_the_end_of(child.pid)
        with monkeypatch.context() as patch:
            patch.setattr(child_process, 'has_ended', lambda popen: False)  # it was asked a moment before
            assert child.poll() is None
        assert child.poll() == 0
    until(lambda: gone(pid_in(tmp_path / 'pid')))


def test_a_wait_has_a_bound_and_a_close_kills_the_group(tmp_path):
    with shell(f'sleep 600 & echo $! > pid; {FOR_EVER}', cwd=tmp_path) as child:
        assert child.wait(0.01) is None
        helper = pid_in(tmp_path / 'pid')
    assert child.poll() == -signal.SIGKILL
    until(lambda: gone(helper))


def test_a_killed_child_that_the_kernel_holds_is_not_awaited_for_ever(monkeypatch):
    child = shell(FOR_EVER)
    with monkeypatch.context() as held:
        held.setattr(os, 'killpg', lambda pid, signum: None)
        held.setattr(child_process, 'KILLED_SECS', 0.05)
        child.close()
        assert child.poll() is None
    child.close()
    assert child.poll() == -signal.SIGKILL


def test_its_output_and_its_last_line():
    with shell('echo out; printf "first\\nlast\\n" >&2; exit 4', stdout=PIPE, stderr=PIPE) as child:
        output = child.finish(BOUND_SECS)
    assert output == (4, b'out\n', b'first\nlast\n')
    assert output.last_line == 'last'
    assert output._replace(err=b' \n').last_line == 'its process ended with 4'


def test_one_that_takes_too_long_is_killed():
    child = shell(FOR_EVER, stdout=PIPE)
    with pytest.raises(child_process.TookTooLong, match='it took longer than 0.1 s'):
        child.finish(0.1)
    assert child.poll() == -signal.SIGKILL


def test_an_exit_code_that_somebody_else_has_taken_is_no_success():
    with shell('exit 0') as child:
        os.waitpid(child.pid, 0)
        assert child.wait(BOUND_SECS) == child_process.UNKNOWN_CODE
    with shell('echo done', stdout=PIPE) as child:
        os.waitpid(child.pid, 0)
        assert child.finish(BOUND_SECS) == (child_process.UNKNOWN_CODE, b'done\n', b'')


def test_exit_codes_come_although_sigchld_was_ignored():
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with shell('exit 3') as child:
            assert child.wait(BOUND_SECS) == 3
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_what_it_is_given_and_what_it_writes():
    data = b'x' * 200_000  # more than a pipe holds
    with shell('wc -c; printf "a\\rb" >&2', stdin=PIPE, stdout=PIPE, stderr=PIPE) as child:
        child.give(data)
        assert sorted(line.strip() for line in child.lines()) == [str(len(data)), 'a', 'b']
        assert child.open_pipes == ()
    with shell('exec <&-; echo closed', stdin=PIPE, stdout=PIPE) as child:
        assert [*child.lines()] == ['closed']
        with pytest.raises(BrokenPipeError):
            child.give(data)


def test_a_pipe_that_holds_nothing_is_not_waited_for():
    with shell(FOR_EVER, stdout=PIPE) as child:
        assert child.read(child.stdout) is None and child.read_lines(child.stdout) == []


@pytest.mark.parametrize('argv, more', [(['/no/such/program'], {}), (['true'], {'cores': [10**6]})])
def test_one_that_cannot_be_started(argv, more):
    with pytest.raises(OSError):
        Child(argv, **more)


def test_a_command_that_ties_itself_becomes_the_command():
    with Child(parent_process.tying(('sh', '-c', 'echo $$ $1', 'sh', 'word')), stdout=PIPE, ties=False) as child:
        assert child.finish(BOUND_SECS).out == f'{child.pid} word\n'.encode()
    with Child(parent_process.tying(('/no/such/program',)), stderr=PIPE, ties=False) as child:
        assert child.finish(BOUND_SECS) == (127, b'', b'/no/such/program: No such file or directory\n')


PARENT = """
import sys
from estimator_trainer.this_process import child_process, parent_process
command = ('sh', '-c', 'echo $$ > pid; exec sleep 600')
itself = sys.argv[1] == 'itself'
child_process.Child(parent_process.tying(command) if itself else command, ties=not itself)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != 'linux', reason='needs PR_SET_PDEATHSIG')
@pytest.mark.parametrize('who', ['itself', 'fork'])
def test_it_does_not_outlive_its_parent(tmp_path, who):
    environ = {**os.environ, 'PYTHONPATH': os.getcwd()}
    command = [sys.executable, '-c', PARENT, who]
    with subprocess.Popen(command, cwd=tmp_path, env=environ, stdin=subprocess.PIPE) as parent:
        pid = pid_in(tmp_path / 'pid')
        assert not gone(pid)
        parent.kill()
    until(lambda: gone(pid))


@pytest.mark.parametrize(
    'chunks, lines',
    [
        ([b'a\nb\n'], [b'a', b'b']),
        ([b'a', b'b', b'\nc\n'], [b'ab', b'c']),
        ([b'a\n\nb\n'], [b'a', b'', b'b']),
        ([b'a\r\nb\r\n'], [b'a', b'b']),
        ([b'a\r', b'\nb\n'], [b'a', b'b']),
        ([b'a\r', b'\n\nb\n'], [b'a', b'', b'b']),
        ([b'\r10%\r20%', b'\r30%\n'], [b'10%', b'20%', b'30%']),
        ([b'a\r', b'b\r', b'\n'], [b'a', b'b']),
        ([b'\xff\xfe\n'], [b'\xff\xfe']),
        ([b'123456\n'], [b'1234', b'56']),
        ([b'123456789', b'a\n'], [b'1234', b'5678', b'9a']),
    ],
)
def test_lines(chunks, lines):
    splitter = Lines(limit=4)
    assert [line for chunk in chunks for line in splitter.feed(chunk)] == lines
    assert splitter.close() == []


def test_a_partial_line_is_held_until_the_end():
    splitter = Lines()
    assert splitter.feed(b'no end') == []
    assert splitter.close() == [b'no end']
    assert splitter.close() == []


def test_a_child_without_line_ends_does_not_fill_the_memory():
    splitter = Lines(limit=64)
    seen = sum(len(piece) for _ in range(100) for piece in splitter.feed(b'x' * 100))
    assert 0 < 100 * 100 - seen <= 64
    assert seen + len(splitter.close()[0]) == 100 * 100


def test_all_have_time_to_save_before_they_are_killed(tmp_path):
    saves = f'trap "touch {tmp_path}/saved; exit 143" TERM; echo ready; while :; do sleep .02; done'
    deaf = 'trap "" TERM; echo ready; while :; do sleep .02; done'
    children = [Child(['sh', '-c', script], stdout=PIPE) for script in (saves, deaf)]
    for child in children:
        assert next(child.lines()) == 'ready'
    child_process.stop(children, 1)
    assert (tmp_path / 'saved').exists()
    assert [child.poll() for child in children] == [143, -signal.SIGKILL]
