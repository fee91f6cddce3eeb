"""A child of a call: its lines, its end, and the end of its parent. The child is a small program, not the trainer."""

import json
import os
import pathlib
import signal
import site
import subprocess
import sys
import sysconfig
import threading
import time

import pytest

from estimator_trainer.api import child_command
from estimator_trainer.api.child_command import Ended
from estimator_trainer.errors import DataDamaged, DatasetError, DatasetUnavailable, RunFailed, UsageError
from tests.processes import gone, pid_in, until

ROOT = pathlib.Path(__file__).parents[2]
BOUND_SECS = 60


def run(program, grace_secs=BOUND_SECS, **more):
    environ = {**os.environ, 'PYTHONPATH': str(ROOT), 'PYTHONUNBUFFERED': '1'}
    return child_command.run([], grace_secs, environ, start=(sys.executable, '-c', program), **more)


def test_its_lines_come_to_the_streams_of_python(capsys):
    ended = run('import sys; print("out"); print("one\\rtwo", file=sys.stderr); sys.exit(3)')
    assert ended == Ended(3, ('one', 'two'), '')
    assert capsys.readouterr() == ('out\n', 'one\ntwo\n')


def test_its_stdout_may_be_the_result(capsys):
    assert run('print("out")', shows_stdout=False) == Ended(0, (), 'out\n')
    assert capsys.readouterr().out == ''


def test_a_stream_that_is_closed_does_no_harm(monkeypatch):
    with open(os.devnull, 'w') as closed:
        monkeypatch.setattr(sys, 'stdout', closed)
    assert run('print("out")').code == 0
    monkeypatch.setattr(sys, 'stdout', None)
    assert run('print("out")').code == 0


def test_a_signal_that_kills_it_is_told_as_a_shell_does():
    assert run('import os; os.kill(os.getpid(), 9)').code == 137


def test_what_it_leaves_behind_does_not_hold_up_the_call():
    assert run('import os, time\nif os.fork() == 0: time.sleep(60)').code == 0


WAITS = """
import pathlib, signal, sys, time
def saves(*_):
    print('saved')
    sys.exit(130)
signal.signal(signal.SIGINT, {handler})
print('ready')
pathlib.Path({path!r}).touch()
time.sleep(60)
"""


def interrupt_when_there(path, times=1):
    """Ctrl-C for this process, once the child is ready."""

    def wait():
        while not path.exists():
            time.sleep(0.01)
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.3)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_ctrl_c_lets_it_save(tmp_path, capsys):
    path = tmp_path / 'ready'
    thread = interrupt_when_there(path)
    with pytest.raises(KeyboardInterrupt):
        run(WAITS.format(handler='saves', path=str(path)))
    thread.join()
    assert capsys.readouterr().out == 'ready\nsaved\n'


@pytest.mark.parametrize('grace_secs, times', [(0.2, 1), (BOUND_SECS, 2)])
def test_one_that_does_not_end_is_killed_in_time_or_by_a_second_ctrl_c(tmp_path, grace_secs, times):
    path = tmp_path / 'ready'
    program = WAITS.format(handler='signal.SIG_IGN', path=str(path)) + f'\npathlib.Path({str(path)!r}).unlink()'
    thread = interrupt_when_there(path, times)
    with pytest.raises(KeyboardInterrupt):
        run(program, grace_secs)
    thread.join()
    assert path.exists()  # it has not come to its end


def test_it_does_not_outlive_its_parent(tmp_path):
    script = (
        'import os, sys\n'
        'from estimator_trainer.api import child_command\n'
        f'child_command.run([], 1, os.environ, start=("sh", "-c", "echo $$ > {tmp_path}/pid; exec sleep 600"))\n'
    )
    environ = {**os.environ, 'PYTHONPATH': str(ROOT)}
    with subprocess.Popen([sys.executable, '-c', script], env=environ) as parent:
        child = pid_in(tmp_path / 'pid')
        assert not gone(child)
        parent.kill()
    until(lambda: gone(child))


def test_the_environment_of_a_child(tmp_path):
    old = {'PYTHONPATH': '/other', 'ESTIMATOR_TRAINER_ERROR_FILE': 'x', 'TF_CONFIG': '{}'}
    packages = sysconfig.get_path('purelib')
    left_out = [packages, os.path.join(packages, 'setuptools', '_vendor'), os.path.dirname(os.__file__), '/no/such']
    found = child_command.environment(old, ['', str(tmp_path), *left_out])
    assert found == {'PYTHONPATH': f'{tmp_path}:/other', 'PYTHONUNBUFFERED': '1', 'TF_CONFIG': '{}'}


def test_folders_of_the_user_below_the_prefix_and_zip_files_reach_a_child(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, 'prefix', str(tmp_path))
    (tmp_path / 'src').mkdir()
    (tmp_path / 'code.zip').touch()
    path = [str(tmp_path), str(tmp_path / 'src'), str(tmp_path / 'code.zip'), str(tmp_path / 'code.zip' / 'lib')]
    found = child_command.environment({}, [*path, str(tmp_path / 'gone' / 'lib')])
    assert found['PYTHONPATH'].split(os.pathsep) == path


def test_what_a_new_python_has_by_itself_is_left_out():
    code = 'import json, sys; print(json.dumps(sys.path[1:]))'
    environ = {name: value for name, value in os.environ.items() if name != 'PYTHONPATH'}
    done = subprocess.run([sys.executable, '-S', '-c', code], env=environ, stdout=subprocess.PIPE, check=True)
    by_itself = [*json.loads(done.stdout), *site.getsitepackages()]
    assert len(by_itself) > 2 and child_command.environment({}, by_itself)['PYTHONPATH'] == ''


def test_the_folder_of_a_call_is_removed():
    with child_command.own_folder() as folder:
        pathlib.Path(folder, 'job.pkl').touch()
    assert not os.path.exists(folder)


@pytest.mark.parametrize(
    'code, last, error, report, kind, said',
    [
        (64, ('a', 'error: --x: no', '  more'), {}, {}, UsageError, '--x: no\n  more'),
        (64, (), {'code': 64, 'message': 'told'}, {}, UsageError, 'told'),
        (65, ('error: bad',), {}, {}, DataDamaged, 'bad'),
        (66, ('error: none',), {}, {}, DatasetError, 'none'),
        (200, ('error: away',), {}, {}, DatasetUnavailable, 'away'),
        (
            1,
            ('error: not this', 'KeyError: x'),
            {'code': 1, 'message': 'KeyError: x (a.py, line 2)'},
            {},
            RunFailed,
            '2)',
        ),
        (1, ('Traceback', 'KeyError: x'), {}, {}, RunFailed, 'KeyError: x'),
        (71, (), {'code': 64, 'message': 'of another end'}, {}, RunFailed, 'out of memory'),
        (
            1,
            ('[cluster] end',),
            {},
            {'exit_code': 1, 'attempts': [{'cause': {'message': 'worker:1 failed'}}]},
            RunFailed,
            'worker:1 failed',
        ),
    ],
)
def test_failures(code, last, error, report, kind, said):
    found = child_command.failure(Ended(code, last, ''), error, report)
    assert type(found) is kind and said in str(found)
    if kind is RunFailed:
        assert (found.code, found.lines) == (code, last) and said in found.message
