"""cluster --program: a program of somebody's own in place of the trainer."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from estimator_trainer.errors import UsageError
from estimator_trainer.supervisor import local_supervisor, options
from estimator_trainer.this_process import console

ROOT = pathlib.Path(__file__).parents[2]
BOUND_SECS = 60
PROGRAM = """
import json, os, sys, time
import beside

task = json.loads(os.environ['TF_CONFIG'])['task']
print(json.dumps([task['type'], task['index'], sys.argv[1:]]), flush=True)
"""
FAILS_ONCE = """
if os.environ['ESTIMATOR_TRAINER_GENERATION'].startswith('1-'):
    if task['index'] == 1:
        raise ValueError('no data')
    time.sleep(600)
"""
WAITS = """
try:
    print('waits', flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    sys.exit('told')
"""


@pytest.fixture
def start(tmp_path):
    """start(the program's end, flags...) -> Popen of the command, in tmp_path; the program is code/my.py."""
    (tmp_path / 'code').mkdir()
    (tmp_path / 'code' / 'beside.py').touch()
    running = []

    def start(end, *flags):
        (tmp_path / 'code' / 'my.py').write_text(PROGRAM + end)
        argv = ['cluster', '--isolate=off', '--backoff_secs=.01', '--program=code/my.py', *flags]
        popen = subprocess.Popen(
            [sys.executable, '-m', 'estimator_trainer', *argv, '--', '--steps=3', '-x'],
            cwd=tmp_path,
            env={**os.environ, 'PYTHONPATH': str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        running.append(popen)
        return popen

    yield start
    for popen in running:
        popen.kill()
        popen.communicate()


def test_each_task_has_its_place_and_the_flags_and_a_failure_is_explained(start, tmp_path):
    popen = start(FAILS_ONCE, '--noevaluator')
    out, err = popen.communicate(timeout=BOUND_SECS)
    assert popen.returncode == 0, err
    told = {line for line in out.splitlines()}
    assert told == {f'[worker:{index}] ["worker", {index}, ["--steps=3", "-x"]]' for index in (0, 1)}
    assert (
        "restart 1 of 3 in 0.0 s, from the program's own last checkpoint: worker:1, exit code 1: ValueError: no data"
        in err
    )
    folder = tmp_path / 'my-cluster'
    report = json.loads((folder / 'report.json').read_text())
    assert [attempt['why'] for attempt in report['attempts']] == ['failed', 'done']
    assert report['attempts'][0]['cause']['message'] == 'ValueError: no data'
    assert (folder / 'attempt-2' / 'worker-1.out').is_file() and (folder / 'status.json').is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == ['code', 'my-cluster']


def test_ctrl_c_reaches_the_program_and_nothing_is_claimed_of_checkpoints(start):
    popen = start(WAITS, '--noevaluator', '--workers=1', '--log_dir=logs')
    while 'waits' not in (line := popen.stdout.readline()):
        assert line.startswith('[worker:0]')
    popen.send_signal(signal.SIGINT)
    _, err = popen.communicate(timeout=BOUND_SECS)
    assert popen.returncode == 130, err
    assert '[worker:0] told' in err and 'checkpoint' not in err


SERVER_THAT_JOINS = """
if task['type'] == 'ps':
    time.sleep(600)
"""


def test_its_parameter_servers_end_when_all_others_are_done(start, tmp_path):
    popen = start(SERVER_THAT_JOINS, '--ps=1', '--noevaluator')
    _, err = popen.communicate(timeout=BOUND_SECS)
    assert popen.returncode == 0, err
    report = json.loads((tmp_path / 'my-cluster' / 'report.json').read_text())
    assert [attempt['why'] for attempt in report['attempts']] == ['done']


def parsed(tmp_path, *flags):
    (tmp_path / 'my.py').touch()
    return options.parse([f'--program={tmp_path}/my.py', *flags])


def test_the_command_of_each_task(tmp_path):
    opts = parsed(tmp_path, '--workers=2', '--ps=1', '--', '--batch_size=8')
    silent = console.Console(None, False)
    machine = local_supervisor.Machine(('trainer',), {}, (0, 1), silent, silent, False)
    gang = local_supervisor.gang_commands(opts, machine, 2, [1, 2, 3, 4], {})
    assert {task.argv for task in gang} == {
        (sys.executable, '-m', 'estimator_trainer.compat', 'run', f'{tmp_path}/my.py', '--batch_size=8')
    }
    assert [task.name for task in gang if task.serves_for_ever] == ['ps:0']
    tasks = [json.loads(task.env['TF_CONFIG'])['task'] for task in gang]
    assert [f'{task["type"]}:{task["index"]}' for task in tasks] == [task.name for task in gang]


def test_the_switches_of_compat(tmp_path):
    assert parsed(tmp_path, '--tf1', '--tf1_packages=a,b').switches == ('--tf1', '--tf1-packages=a,b')
    assert parsed(tmp_path, '--horovod').switches == ('--horovod',)
    with pytest.raises(UsageError, match='--tf1_packages=a: only for a program of TensorFlow 1; give --tf1'):
        parsed(tmp_path, '--tf1_packages=a')


def test_no_stall_is_seen_where_no_steps_are_told(tmp_path):
    assert parsed(tmp_path).limits.stall_timeout == 0


@pytest.mark.parametrize('flag', ['--min_workers=1', '--stall_timeout=9'])
def test_flags_that_need_the_trainer_are_refused(tmp_path, flag):
    with pytest.raises(UsageError, match=f'{flag}: needs the trainer'):
        parsed(tmp_path, flag)


def test_a_program_that_is_not_there():
    with pytest.raises(UsageError, match='--program=nowhere.py: no such file in .*; name the file'):
        options.parse(['--program=nowhere.py'])


@pytest.mark.parametrize('environ, of_tasks', [({}, ['0', '1']), ({'CUDA_VISIBLE_DEVICES': '1,0'}, ['1,0', '1,0'])])
def test_the_gpus_of_this_machine_are_dealt_unless_the_user_has_named_them(tmp_path, monkeypatch, environ, of_tasks):
    monkeypatch.setattr(local_supervisor.gpus, 'on_machine', lambda: 2)
    silent = console.Console(None, False)
    machine = local_supervisor.Machine(('trainer',), environ, (0, 1), silent, silent, False)
    of_trainer = options.parse(['--workers=2', '--noevaluator', '--', f'--model_dir={tmp_path}', '--max_steps=1'])
    gang = local_supervisor.gang_commands(of_trainer, machine, 2, [1, 2], environ)
    assert [task.env['CUDA_VISIBLE_DEVICES'] for task in gang] == of_tasks
    gang = local_supervisor.gang_commands(parsed(tmp_path), machine, 2, [1, 2, 3], environ)  # a program chooses itself
    assert {task.env.get('CUDA_VISIBLE_DEVICES') for task in gang} == {environ.get('CUDA_VISIBLE_DEVICES')}
