"""forks, watchdog and signals after a fork: a child is a process of its own from its first instruction."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import threading

import pytest

ROOT = pathlib.Path(__file__).parents[2]
BOUND_SECS = 120

WATCHDOG = """
import multiprocessing, os, signal, sys, threading, time
from estimator_trainer.this_process import forks
from estimator_trainer.lifecycle import ending, watchdog
def fork(function, *args):
    child = os.fork()
    if not child:
        function(*args)
        os._exit(0)
    return child
def code_of(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""
IN_WATCHDOG = (
    WATCHDOG
    + """
with watchdog.Watchdog('worker:1', watchdog.Bounds(), {}) as task:
    task.stepped(7)
"""
)


def with_default_signals():
    """The tests themselves may run under nohup, or as a shell's background job, which ignore these."""
    for signum in (signal.SIGHUP, signal.SIGINT):
        signal.signal(signum, signal.SIG_DFL)


def run(body, program=IN_WATCHDOG, indent='    '):
    """Runs a body in a process with a watchdog -> (exit code, stdout, stderr)."""
    code = program + ''.join(f'{indent}{line}\n' for line in body.strip().splitlines())
    process = subprocess.Popen(
        [sys.executable, '-c', code],
        cwd=ROOT,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=with_default_signals,
    )
    timer = threading.Timer(BOUND_SECS, os.killpg, (process.pid, signal.SIGKILL))
    timer.start()
    try:
        out, err = process.communicate()
    finally:
        timer.cancel()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, out, err


@pytest.mark.parametrize('signum', [signal.SIGTERM, signal.SIGHUP])
def test_signals_of_a_child_are_its_own_and_end_it(signum):
    """Sent at once, and many times: before the child has run anything."""
    code, out, err = run(f"""
for _ in range(200):
    child = fork(time.sleep, 600)
    os.kill(child, {int(signum)})
    assert code_of(child) == -{int(signum)}
time.sleep(.5)  # what has come to the descriptor is read by then
assert task.signum is None
print('done')
""")
    assert (code, out) == (0, 'done\n'), err


def test_ctrl_c_is_the_trainers_and_not_its_helpers():
    code, _, err = run("""
child = fork(lambda: (os.kill(os.getpid(), signal.SIGINT), os._exit(7)))
assert code_of(child) == 7
assert task.signum is None
""")
    assert code == 0, err


def test_ctrl_c_is_the_trainers_and_not_that_of_helpers_by_exec():
    code, _, err = run("""
for method in ('spawn', 'forkserver'):
    with multiprocessing.get_context(method).Pool(1) as pool:
        blocked = pool.apply(signal.pthread_sigmask, (signal.SIG_BLOCK, ()))
        assert set(blocked) == {signal.SIGINT}, blocked
assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
""")
    assert code == 0, err


def test_what_was_ignored_stays_ignored_in_a_child():
    code, _, err = run(
        """
signal.signal(signal.SIGHUP, signal.SIG_IGN)
with watchdog.Watchdog('worker:1', watchdog.Bounds(), {}) as task:
    child = fork(lambda: os._exit(10 + (signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)))
    assert code_of(child) == 11
    os.kill(os.getpid(), signal.SIGHUP)
""",
        WATCHDOG,
        '',
    )
    assert code == 0, err


def test_a_child_has_the_mask_of_the_thread_that_forked():
    code, _, err = run("""
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2, signal.SIGINT])
before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
child = fork(lambda: os._exit(10 + (signal.pthread_sigmask(signal.SIG_BLOCK, []) == before)))
assert code_of(child) == 11
assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
""")
    assert code == 0, err


def test_a_child_has_none_of_the_watchdogs_descriptors_nor_its_locks():
    code, _, err = run("""
def look(kept):
    for fd in range(256):
        try:
            if os.fstat(fd).st_ino == kept:
                os._exit(1)
        except OSError:
            pass
    if signal.set_wakeup_fd(-1) != -1:
        os._exit(1)
    task.end(ending.End(1, 'not of a task'))  # does nothing, and waits for no lock
    task.enter('evaluating')
    os._exit(0)
pipe = os.fstat(task._inbox._reader).st_ino
with task._lock:
    assert code_of(fork(look, pipe)) == 0
""")
    assert code == 0 and 'not of a task' not in err, err


@pytest.mark.parametrize(
    'end, code, says',
    [
        ('raise SystemExit(5)', 5, ''),
        ('sys.exit()', 0, ''),
        ('sys.exit("no luck")', 1, 'no luck\n'),
        ('1 / 0', 1, 'ZeroDivisionError'),
        ('raise KeyboardInterrupt', 130, 'KeyboardInterrupt'),
        ('pass', 0, ''),
    ],
)
def test_a_child_that_comes_back_into_the_trainer_ends_there(end, code, says):
    ended, out, err = run(
        f"""
try:
    with forks.parent_only():
        child = os.fork()
        if not child:
            {end}
    print('after it')
finally:
    print('finally', os.getpid() == {'parent'})
assert code_of(child) == {code}
""".replace('{"parent"}', 'parent'),
        WATCHDOG + 'parent = os.getpid()\n',
        '',
    )
    assert (ended, out) == (0, 'after it\nfinally True\n') and says in err, err


def test_every_duty_of_a_child_is_done_and_none_of_a_grandchild():
    code, out, err = run(
        """
def fail(): raise ValueError('of a duty')
for duty in (lambda: os.write(1, b'first '), fail, lambda: os.write(1, b'last ')):
    forks.in_child(duty)
child = os.fork()
if not child:
    os._exit(code_of(fork(os.write, 1, b'grandchild')))
assert code_of(child) == 0
""",
        WATCHDOG,
        '',
    )
    assert (code, out) == (0, 'last first grandchild') and 'of a duty' in err, err


def test_no_child_is_made_while_something_is_set_up():
    code, out, err = run(
        """
def child():
    os.waitpid(fork(os.write, 1, b'child '), 0)
with forks.none_meanwhile():
    thread = threading.Thread(target=child)
    thread.start()
    time.sleep(.2)
    os.write(1, b'set up ')
thread.join()
""",
        WATCHDOG,
        '',
    )
    assert (code, out) == (0, 'set up child '), err


@pytest.mark.parametrize('how', ['fork', 'forkserver', 'spawn'])
def test_a_pool_may_be_terminated(how, tmp_path):
    path = tmp_path / 'program.py'  # spawn imports it
    path.write_text(
        WATCHDOG
        + f"""
if __name__ == '__main__':
    with watchdog.Watchdog('worker:1', watchdog.Bounds(), {{}}) as task:
        task.stepped(7)
        for _ in range(3):
            with multiprocessing.get_context('{how}').Pool(2) as pool:
                assert pool.map(abs, [-1, -2]) == [1, 2]
            process = multiprocessing.get_context('{how}').Process(target=time.sleep, args=(600,))
            process.start()
            process.terminate()
            process.join()
            assert process.exitcode == -signal.SIGTERM, process.exitcode
        time.sleep(.5)
        assert task.signum is None
"""
    )
    done = subprocess.run(
        [sys.executable, path],
        env={**os.environ, 'PYTHONPATH': str(ROOT)},
        timeout=BOUND_SECS,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_a_child_of_a_supervisor():
    code, _, err = run(
        """
from estimator_trainer.this_process import signal_pipe
with signal_pipe.Signals() as caught:
    child = fork(time.sleep, 600)
    os.kill(child, signal.SIGTERM)
    assert code_of(child) == -signal.SIGTERM
    assert caught.take() == []
""",
        WATCHDOG,
        '',
    )
    assert code == 0, err
