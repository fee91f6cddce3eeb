"""The whole command with a trainer of a few lines, each run in its own, bounded process."""

import os
import pathlib
import subprocess
import sys
import types

import pytest

from estimator_trainer import exit_codes
from estimator_trainer.supervisor import cluster_command, options
from estimator_trainer.supervisor.policy.task_commands import TaskCommand
from estimator_trainer.this_process import isolate

ROOT = pathlib.Path(__file__).parents[2]
BOUND_SECS = 120

TRAINER = """
import json, os, sys
who = json.loads(os.environ['TF_CONFIG'])['task']
with open('started', 'a') as file:
    file.write(f'{who["type"]} {sys.argv[1:]}\\n')
if '--bad' in sys.argv:
    sys.exit(print('trainer: unknown flag --bad', file=sys.stderr) or 64)
isolated = os.environ.get('ESTIMATOR_TRAINER_ISOLATED')
print('dry' if '--dry_run' in sys.argv else f'training, isolated {isolated}')
sys.exit(7 if '--fail' in sys.argv and '--dry_run' not in sys.argv else 0)
"""

COMMAND = """
import sys
from estimator_trainer.supervisor import cluster_command
cluster_command.TRAINER = (sys.executable, 'trainer.py')
sys.exit(cluster_command.main(sys.argv[1:]))
"""


def command(tmp_path, *argv, before=''):
    (tmp_path / 'trainer.py').write_text(TRAINER)
    return subprocess.run(
        [sys.executable, '-c', before + COMMAND, *argv],
        cwd=tmp_path,
        env={**os.environ, 'PYTHONPATH': str(ROOT), 'TMPDIR': str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=BOUND_SECS,
    )


def test_a_whole_run(tmp_path):
    done = command(tmp_path, '--workers=2', '--isolate=off', '--', '--model_dir=model')
    assert done.returncode == 0
    assert sorted(done.stdout.splitlines()) == [
        f'[{who}] training, isolated None' for who in ('evaluator:0', 'worker:0', 'worker:1')
    ]
    assert '[cluster] start: worker:0 127.0.0.1:' in done.stderr
    assert '[cluster] end: exit code 0 after' in done.stderr
    logs = tmp_path / 'model' / 'logs' / 'attempt-1'
    assert str(logs) in done.stderr
    assert (logs / 'worker-1.out').read_text() == 'training, isolated None\n'


def test_a_run_that_fails_shows_where_to_look(tmp_path):
    done = command(tmp_path, '--workers=1', '--noevaluator', '--', '--model_dir=model', '--fail')
    assert done.returncode == 7
    assert 'worker:0 ended with exit code 7' in done.stderr
    assert 'attempt-1/worker-0.err' in done.stderr


def test_the_trainers_own_check_comes_first_and_once(tmp_path):
    done = command(tmp_path, '--', '--model_dir=model', '--bad')
    assert (done.returncode, done.stdout) == (64, '')
    assert done.stderr == 'trainer: unknown flag --bad\n'
    assert len((tmp_path / 'started').read_text().splitlines()) == 1
    assert not (tmp_path / 'model').exists()


@pytest.mark.parametrize('argv', [['--workers=0'], ['--wrkers=2'], ['mnist'], ['--', '--flagfile=/no/such']])
def test_usage_errors_start_nothing(tmp_path, argv):
    done = command(tmp_path, *argv)
    assert (done.returncode, done.stdout) == (64, '')
    assert len(done.stderr.splitlines()) == 1
    assert os.listdir(tmp_path) == ['trainer.py']  # no lock folder, no logs, no 'started'


def test_a_log_folder_that_cannot_be_made_is_a_usage_error(tmp_path):
    (tmp_path / 'file').touch()
    done = command(tmp_path, '--log_dir=file/logs')
    assert done.returncode == 64
    assert '--log_dir=file/logs: ' in done.stderr


def test_a_check_that_does_not_end_is_no_error_of_the_flags(monkeypatch, capsys):
    monkeypatch.setattr(cluster_command, 'CHECK_SECS', 0.01)
    code = cluster_command.check_flags(TaskCommand('worker:0', ('sleep', '600'), os.environ), show=False)
    said = capsys.readouterr().err
    assert code == exit_codes.FAILED and 'did not end within 0.01 s, and nothing was started' in said
    assert 'the same command may work later' in said


@pytest.mark.parametrize('ended', [0, 70, None])
def test_ctrl_c_after_the_end_does_not_change_the_code(tmp_path, monkeypatch, ended):
    def interrupted(code):
        raise KeyboardInterrupt

    run = interrupted if ended is None else lambda code: ended
    supervised = types.SimpleNamespace(run=lambda: run(None))
    monkeypatch.setattr(cluster_command.local_supervisor, 'LocalSupervisor', lambda *args: supervised)
    monkeypatch.setattr(cluster_command, 'check_flags', lambda command, show: 0)
    opts = options.parse([f'--log_dir={tmp_path}', '--', f'--model_dir={tmp_path}/run', '--max_steps=1'])
    sending = types.SimpleNamespace(follow=lambda say: None, last=interrupted)
    claimed = types.SimpleNamespace(ports=[*range(2000, 2000 + opts.shape.size)])
    call = lambda: cluster_command.run(opts, claimed, isolate.Isolation(False, ''), sending, None)  # noqa: E731
    if ended is None:
        with pytest.raises(KeyboardInterrupt):
            call()
    else:
        assert call() == ended


ISOLATION = """
import collections
from estimator_trainer.supervisor.processes import ports
from estimator_trainer.this_process import isolate
def enter(mode, data):
    if mode == 'on':
        raise isolate.CannotIsolate('--isolate=on: not here')
    ports.claim = lambda count, claim=ports.claim: print('claimed', flush=True) or claim(count)
    print('entered', mode, flush=True)
    return isolate.Isolation(mode == 'auto', f'note on {mode}')
isolate.enter = enter
"""


@pytest.mark.parametrize('mode, told', [('auto', '1'), ('off', 'None')])
def test_isolation_comes_before_the_ports_and_is_told(tmp_path, mode, told):
    done = command(tmp_path, f'--isolate={mode}', '--workers=1', '--noevaluator', before=ISOLATION)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f'entered {mode}', 'claimed', f'[worker:0] training, isolated {told}']
    assert done.stderr.startswith(f'[cluster] note on {mode}\n[cluster] start: ')


def test_isolation_that_cannot_be_had_is_a_usage_error(tmp_path):
    done = command(tmp_path, '--isolate=on', before=ISOLATION)
    assert (done.returncode, done.stdout) == (64, '')
    assert done.stderr == 'error: --isolate=on: not here\n'


def test_the_front_finds_the_package_from_anywhere(tmp_path):
    (tmp_path / 'link').symlink_to(ROOT / 'run_local_cluster.sh')
    done = subprocess.run(
        [tmp_path / 'link', '--help'],
        cwd=tmp_path,
        env={**os.environ, 'PYTHON': sys.executable, 'PYTHONPATH': ''},
        capture_output=True,
        text=True,
        timeout=BOUND_SECS,
    )
    assert done.returncode == 0
    assert 'usage: run_local_cluster.sh' in done.stdout
