"""compat.patches.child_processes: who waits for a Pool whose worker was told to stop with the task."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from tests.this_process.test_forks import with_default_signals

ROOT = pathlib.Path(__file__).parents[2]
BOUND_SECS = 120

PROGRAM = """
import logging, multiprocessing, os, signal, sys, time
from concurrent.futures.process import BrokenProcessPool
from estimator_trainer.compat.patches import child_processes
from estimator_trainer.lifecycle import watchdog

def strike(signum):
    (os.killpg if KILLED == 'group' else os.kill)(0 if KILLED == 'group' else os.getpid(), signum)
    time.sleep(600)

def last(answers):
    *_, answer = answers
    return answer

def ends(function):
    try:
        function()
    except BrokenProcessPool as error:
        return str(error)
    sys.exit('no BrokenProcessPool')

CALLS = {
    'apply': lambda pool, signum: pool.apply(strike, [signum]),
    'map': lambda pool, signum: pool.map(strike, 5 * [signum]),
    'starmap_async': lambda pool, signum: pool.starmap_async(strike, 5 * [[signum]]).get(),
    'imap': lambda pool, signum: last(pool.imap(strike, 5 * [signum])),
    'imap_unordered': lambda pool, signum: last(pool.imap_unordered(strike, 5 * [signum], chunksize=2)),
}
"""


def run(body, method='fork', killed='group', folder=None):
    """Runs a body in a process group of its own -> (exit code, stderr)."""
    path = folder / 'program.py'  # spawn and forkserver import it
    path.write_text(
        f'KILLED = {killed!r}\n' + PROGRAM + 'if __name__ == "__main__":\n'
        '  with watchdog.Watchdog("worker:1", watchdog.Bounds(grace=40), {}) as task:\n'
        '    task.stepped(7)\n'
        f'    pool = multiprocessing.get_context({method!r}).Pool(2)\n'
        + ''.join(f'    {text}\n' for text in body.strip().splitlines())
    )
    process = subprocess.Popen(
        [sys.executable, path],
        env={**os.environ, 'PYTHONPATH': str(ROOT)},
        text=True,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=with_default_signals,
    )
    try:
        _, err = process.communicate(timeout=BOUND_SECS)
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    return process.returncode, err


@pytest.mark.parametrize('signum', [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize('call', ['apply', 'map', 'starmap_async', 'imap', 'imap_unordered'])
def test_a_signal_to_the_group_fails_what_was_asked_and_what_will_be(call, signum, tmp_path):
    code, err = run(
        f"""
text = ends(lambda: CALLS[{call!r}](pool, {int(signum)}))
assert 'exit code -{int(signum)}' in text and 'told to stop' in text, text
assert ends(lambda: pool.apply(abs, [1])) == text
assert task.signum == signal.SIGTERM
pool.terminate()
pool.join()
""",
        folder=tmp_path,
    )
    assert code == 0, err


@pytest.mark.parametrize('method', ['spawn', 'forkserver'])
def test_workers_by_exec(method, tmp_path):
    code, err = run(f'ends(lambda: pool.apply(strike, [{int(signal.SIGTERM)}]))', method, folder=tmp_path)
    assert code == 0, err


def test_a_worker_that_is_idle(tmp_path):
    """It dies while it holds the lock of the queue: whoever asks later would wait for ever."""
    code, err = run(
        """
assert pool.apply(abs, [-1]) == 1
os.killpg(0, signal.SIGTERM)
for _ in range(1000):
    if getattr(pool._cache, 'broken', None): break
    time.sleep(.02)
ends(lambda: pool.apply(abs, [-1]))
""",
        folder=tmp_path,
    )
    assert code == 0, err


def test_a_worker_that_dies_long_before_this_process_is_told(tmp_path):
    code, err = run(
        f"""
child_processes._SIGNAL_SECS = 0
answer = pool.apply_async(strike, [{int(signal.SIGTERM)}])
while not child_processes._doubtful: time.sleep(.01)
os.kill(os.getpid(), signal.SIGTERM)
ends(answer.get)
ends(lambda: pool.apply(abs, [1]))
pool.terminate()
""",
        killed='worker',
        folder=tmp_path,
    )
    assert code == 0, err


def test_a_worker_that_somebody_kills_is_only_told_of(tmp_path):
    code, err = run(
        f"""
logging.basicConfig()
answer = pool.apply_async(strike, [{int(signal.SIGKILL)}])
try:
    answer.get(3)
except multiprocessing.TimeoutError:
    pass
assert pool.map(abs, [-1, -2]) == [1, 2]
""",
        killed='worker',
        folder=tmp_path,
    )
    assert code == 0, err
    assert 'a worker of a multiprocessing.Pool has ended: process' in err and 'exit code -9' in err


def test_workers_that_end_when_their_tasks_are_done(tmp_path):
    code, err = run(
        """
logging.basicConfig()
with multiprocessing.get_context('fork').Pool(2, maxtasksperchild=1) as other:
    os.kill(os.getpid(), signal.SIGTERM)
    while task.signum is None: time.sleep(.01)
    assert other.map(abs, range(-20, 0)) == list(range(20, 0, -1))
""",
        folder=tmp_path,
    )
    assert code == 0 and 'WARNING' not in err, err
