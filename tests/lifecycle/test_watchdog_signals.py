"""lifecycle.watchdog: real signals to real processes."""

import contextlib
import fcntl
import os
import pathlib
import signal
import subprocess
import sys
import termios
import threading

import pytest

from estimator_trainer.run_dir import protocol
from tests.lifecycle.watched import BOUND_SECS, INT, TERM
from tests.processes import until

ROOT = pathlib.Path(__file__).parents[2]


PROGRAM = """
import ctypes, signal, sys
from estimator_trainer.lifecycle import watchdog, signal_inbox
assert 'tensorflow' not in sys.modules
libc = ctypes.CDLL(None)
def hang():  # as in session.run: no Python runs here, and no signal ends it
    mutex = ctypes.create_string_buffer(128)
    libc.pthread_mutex_lock(mutex)
    print('ready', flush=True)
    libc.pthread_mutex_lock(mutex)
with watchdog.Watchdog('worker:1', watchdog.Bounds(grace=float(sys.argv[1]))) as line:
    exec(sys.argv[2])
"""


@contextlib.contextmanager
def program(body, grace=BOUND_SECS, ignored=(), **environ):
    """A process in a watchdog, which has printed 'ready'."""

    def prepare():
        for signum in (INT, TERM):
            signal.signal(signum, signal.SIG_IGN if signum in ignored else signal.SIG_DFL)

    process = subprocess.Popen(
        [sys.executable, '-c', PROGRAM, str(grace), body],
        cwd=ROOT,
        text=True,
        preexec_fn=prepare,
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    timer = threading.Timer(BOUND_SECS, os.killpg, (process.pid, signal.SIGKILL))
    timer.start()
    try:
        assert process.stdout.readline() == 'ready\n', process.communicate()
        yield process
    finally:
        timer.cancel()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize('signum, code', [(INT, 130), (TERM, 143)])
def test_a_signal_at_start_up_while_the_main_thread_is_stuck(signum, code):
    with program('hang()') as process:
        process.send_signal(signum)
        _, error = process.communicate()
    assert process.returncode == code
    name = 'Ctrl-C' if signum == INT else signum.name
    assert error.splitlines()[-1].startswith(f'worker:1: stopped by {name};'), error


def test_a_signal_that_is_not_obeyed_and_one_that_insists(tmp_path):
    with (
        program('line.stepped(7); hang()', grace=0.1) as slow,
        program('line.stepped(7); hang()', **{protocol.ERROR_FILE: str(tmp_path / 'error')}) as process,
    ):
        slow.send_signal(TERM)
        process.send_signal(TERM)
        _, error = slow.communicate()
        assert (slow.returncode, 'not saved within 0.1 s of' in error) == (196, True)
        assert process.poll() is None  # its grace period is longer
        process.send_signal(INT)
        process.communicate()
    assert process.returncode == 196
    assert protocol.read_json(str(tmp_path / 'error'))['step'] == 7


def test_the_main_thread_sees_the_signal_and_decides():
    with program("""
line.stepped(7)
print('ready', flush=True)
import time
while line.signum is None: time.sleep(.01)
sys.exit(int(line.signum))
""") as process:
        process.send_signal(TERM)
        process.communicate()
    assert process.returncode == TERM


def test_a_signal_that_was_ignored_stays_ignored():
    with program('hang()', ignored=[INT]) as process:
        for _ in range(3):
            process.send_signal(INT)
        with open(f'/proc/{process.pid}/status') as file:
            (ignored,) = [line for line in file if line.startswith('SigIgn')]
        assert int(ignored.split()[1], 16) >> INT - 1 & 1
        process.send_signal(TERM)
        process.communicate()
    assert process.returncode == 143


STEAL = "libc.signal(signal.SIGTERM, ctypes.c_void_p(1))  # SIG_IGN, behind Python's back"


def test_a_stolen_handler_does_not_swallow_the_signal():
    with program(f'with line.shielded():\n  {STEAL}\n  hang()') as process:
        process.send_signal(TERM)
        process.communicate()
    assert process.returncode == 143


def test_a_stolen_handler_is_taken_back():
    """A signal that is not blocked in every thread is not there to be seen later."""
    with program(f"""
import time
{STEAL}
while signal_inbox.c_action(signal.SIGTERM)[:8] == bytes([1] + 7 * [0]): time.sleep(.01)
hang()
""") as process:
        process.send_signal(TERM)
        process.communicate()
    assert process.returncode == 143


def test_a_signal_in_the_shield_is_one_signal():
    """It is seen twice: while it waits, and when it is let through. After the shield all is as before."""
    with program(f"""
import os, time
line.stepped(7)
with line.shielded():
    {STEAL}
    os.kill(os.getpid(), signal.SIGTERM)
    while line.signum is None: time.sleep(.01)
while line._inbox._seen_early: time.sleep(.01)  # until it has come again
assert not line._state.insisted
print('ready', flush=True)
hang()
""") as process:
        process.send_signal(INT)  # now the second
        _, error = process.communicate()
    assert process.returncode == 196, error
    assert 'second' in error.splitlines()[-1]


def test_stacks_are_dumped_when_asked_for():
    with program('hang()') as process:
        process.send_signal(signal.SIGUSR1)
        lines = []
        while 'Current thread' not in ''.join(lines) or '<string>' not in lines[-1]:
            lines.append(process.stderr.readline())
            assert lines[-1], lines
        assert any('_watch' in line for line in lines) and any('in hang' in line for line in lines)
        assert process.poll() is None
        process.send_signal(TERM)
        process.communicate()
    assert process.returncode == 143


def test_nobody_reads_what_the_task_prints():
    with program('hang()') as process:
        process.stderr.close()
        process.stdout.close()
        process.stdout = process.stderr = None
        process.send_signal(TERM)
        assert process.wait(BOUND_SECS) == 143


def waiting_bytes(pipe):
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_somebody_reads_no_more_of_what_the_task_prints():
    with program(
        """
import logging
from estimator_trainer.lifecycle import ending
ending.READER_SECS = .1
logging.getLogger('estimator_trainer').addHandler(logging.StreamHandler())
logging.getLogger('estimator_trainer').setLevel(logging.INFO)
line.stepped(7)
print('ready', flush=True)
import os
while True: os.write(2, b'x')
""",
        grace=0.1,
    ) as process:
        until(lambda: waiting_bytes(process.stderr) == fcntl.fcntl(process.stderr, fcntl.F_GETPIPE_SZ))
        process.send_signal(TERM)
        assert process.wait(BOUND_SECS) == 196
