"""lifecycle.ending: the last line, the error file, and a process that ends whatever is in its way."""

import contextlib
import json
import logging
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from estimator_trainer import exit_codes
from estimator_trainer.lifecycle import ending, watchdog
from estimator_trainer.run_dir import protocol

ROOT = pathlib.Path(__file__).parents[2]
BOUND_SECS = 120


def test_the_last_line_comes_after_the_line_on_the_signal(capfd, caplog):
    """The log takes its time; the step ends meanwhile."""

    class Slow(logging.Handler):
        def emit(self, record):
            time.sleep(0.3)
            print(record.getMessage(), file=sys.stderr, flush=True)

    caplog.set_level(logging.INFO, 'estimator_trainer')
    handler = Slow()
    logging.getLogger('estimator_trainer').addHandler(handler)
    try:
        task = watchdog.Watchdog('trainer', watchdog.Bounds(), {})
        task.stepped(7)
        task._received(signal.SIGTERM)
        task.end(ending.End(143, 'stopped'))
    finally:
        logging.getLogger('estimator_trainer').removeHandler(handler)
    lines = [line for line in capfd.readouterr().err.splitlines() if 'SIGTERM' in line or 'stopped' in line]
    assert ['received SIGTERM' in line for line in lines] == [True, False]


def reported(folder, end, step=7, task='worker:1'):
    path = folder / 'error.json'
    ending.report(end, task, step, {protocol.ERROR_FILE: str(path)})
    return json.loads(path.read_text()) if path.exists() else None


@pytest.mark.parametrize(
    'end, step, line',
    [
        (ending.End(70, 'NaN'), 7, 'worker:1, step 7: NaN [exit code 70: the loss or a weight is NaN or infinite]'),
        (
            ending.End(143, 'stopped'),
            None,
            'worker:1: stopped [exit code 143: preempted (SIGTERM or SIGHUP); the same command goes on '
            'from what is saved, if anything]',
        ),
        (
            ending.End(65, 'a.csv, line 3: a text is no number'),
            7,
            'worker:1, step 7: a.csv, line 3: a text is no number [exit code 65]',
        ),
        (ending.End(137, 'x'), 0, 'worker:1, step 0: x [exit code 137: killed by signal 9]'),
    ],
)
def test_the_last_line(tmp_path, capsys, end, step, line):
    reported(tmp_path, end, step)
    assert capsys.readouterr().err == line + '\n'


def test_the_error_file(tmp_path):
    before = time.time()
    told = reported(tmp_path, ending.End(193, 'lost', peer='worker:0', traceback=('a', 'b')))
    assert before <= told.pop('time') <= time.time()
    assert told == {
        'task': 'worker:1',
        'code': 193,
        'step': 7,
        'message': 'lost',
        'peer': 'worker:0',
        'follows': False,
        'traceback': ['a', 'b'],
    }
    assert os.listdir(tmp_path) == ['error.json']


def test_no_more_than_the_last_lines_of_a_traceback(tmp_path):
    told = reported(tmp_path, ending.End(1, 'x', traceback=tuple(str(line) for line in range(100))))
    assert told['traceback'] == [str(line) for line in range(70, 100)]


def test_no_error_file_where_nothing_failed_or_none_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert reported(tmp_path, ending.End(exit_codes.OK, 'done')) is None
    ending.report(ending.End(1, 'x'), 'worker:1', 1, {})
    ending.report(ending.End(1, 'x'), 'worker:1', 1, {protocol.ERROR_FILE: ''})
    assert os.listdir(tmp_path) == []


def test_an_error_file_that_cannot_be_written(tmp_path, capsys):
    path = tmp_path / 'no_such' / 'error.json'
    ending.report(ending.End(1, 'boom'), 'worker:1', 1, {protocol.ERROR_FILE: str(path)})
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f'{path}: No such file or directory', lines[1]]
    assert lines[1].startswith('worker:1, step 1: boom')


def test_a_reader_who_has_stopped_to_read(tmp_path, monkeypatch):
    monkeypatch.setattr(ending, 'READER_SECS', 0.05)
    before = set(threading.enumerate())
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, bytes(65536))
    os.set_blocking(writer, True)
    with contextlib.suppress(BrokenPipeError), open(writer, 'w') as full:
        monkeypatch.setattr(sys, 'stderr', full)
        assert reported(tmp_path, ending.End(1, 'boom'))['message'] == 'boom'
        monkeypatch.undo()
        os.close(reader)  # lets the writing thread go
        for thread in set(threading.enumerate()) - before:
            thread.join(5)
            assert not thread.is_alive()


def run(body, streams='', timeout=BOUND_SECS):
    """Runs Python code in a process of its own -> (exit code, stdout, stderr, seconds)."""
    code = f'import sys, threading\nfrom estimator_trainer.lifecycle import ending\n{body}'
    began = time.monotonic()
    environ = {name: value for name, value in os.environ.items() if name != 'PYTHONUNBUFFERED'}
    process = subprocess.Popen(
        ['sh', '-c', f'exec "$@" {streams}', 'sh', sys.executable, '-c', code],
        cwd=ROOT,
        text=True,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return process.returncode, out, err, time.monotonic() - began


@pytest.mark.parametrize('call', ['leave', 'leave_now'])
@pytest.mark.parametrize('code', [0, 1, 193])
def test_the_exit_code_and_what_was_printed(call, code):
    assert run(f'print("out"); print("err", end="", file=sys.stderr)\nending.{call}({code})')[:3] == (
        code,
        'out\n',
        'err',
    )


@pytest.mark.parametrize('streams', ['>&-', '2>&-', '>&- 2>&-', '>/dev/full', '2>/dev/full'])
@pytest.mark.parametrize('call', ['leave', 'leave_now'])
def test_streams_that_cannot_be_written(streams, call):
    body = f'for s in (sys.stdout, sys.stderr):\n  if s: s.write("x")\nending.{call}(7)'
    code, _, error, _ = run(body, streams)
    assert code == 7 and 'Traceback' not in error


def test_leave_does_what_the_interpreter_does():
    assert run("""
import atexit, time
atexit.register(print, 'at exit')
def work():
    time.sleep(.2)
    print('thread done')
threading.Thread(target=work).start()
ending.leave(3)
""")[:2] == (3, 'thread done\nat exit\n')


def test_leave_now_does_not():
    assert run("""
import atexit, time
atexit.register(print, 'at exit')
threading.Thread(target=time.sleep, args=(600,)).start()
ending.leave_now(3)
""")[:2] == (3, '')


def test_leave_does_not_wait_for_idle_threads_of_pools():
    code, *_ = run("""
import concurrent.futures
pool = concurrent.futures.ThreadPoolExecutor(2)
pool.submit(int).result()
ending._LEAVE_SECS = 600
ending.leave(3)
""")
    assert code == 3


@pytest.mark.parametrize(
    'stuck',
    [
        'threading.Thread(target=time.sleep, args=(600,)).start()',
        'concurrent.futures.ThreadPoolExecutor(1).submit(time.sleep, 600)',
    ],
)
def test_leave_does_not_wait_for_ever(stuck):
    code, out, *_ = run(f"""
import atexit, concurrent.futures, time
ending._LEAVE_SECS = 4
atexit.register(print, 'at exit')
{stuck}
ending.leave(3)
""")
    assert (code, out) == (3, 'at exit\n')


def test_leave_from_a_thread_of_which_nobody_knows():
    assert (
        run("""
import time
threading.Thread(target=ending.leave_now, args=(193,), daemon=True).start()
time.sleep(600)
""")[0]
        == 193
    )


def test_an_ending_of_the_jobs_that_fails():
    assert (
        run("""
import atexit
atexit.register(lambda: 1 / 0)
ending.leave(0)
""")[0]
        == 0
    )
