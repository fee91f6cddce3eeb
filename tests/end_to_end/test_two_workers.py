"""What flags promise under MultiWorkerMirroredStrategy, where upstream breaks the promise."""

import contextlib
import os
import signal
import sys
import time

import launch
import pytest

import tf_config
from estimator_trainer.supervisor.processes import ports

pytestmark = pytest.mark.slow

EXAMPLES = launch.REPOSITORY / 'docs' / 'examples'
SMALL = ['--job=spiral:job', '--param=hidden=8', '--batch_size=16', '--export=none']


def checkpoints(model_dir) -> list:
    return sorted(int(path.stem.rpartition('-')[2]) for path in model_dir.glob('model.ckpt-*.index'))


def test_no_summaries_does_not_mean_no_checkpoints(tmp_path):
    launch.cluster(
        ['--workers=2', '--noevaluator'],
        *SMALL,
        f'--model_dir={tmp_path}/run',
        '--max_steps=40',
        '--save_summary_steps=0',
        '--save_checkpoints_steps=20',
        cwd=EXAMPLES,
    )
    assert checkpoints(tmp_path / 'run') == [0, 20, 40]
    assert not list((tmp_path / 'run').glob('tmp_*'))


def test_checkpoints_by_time(tmp_path):
    launch.cluster(
        ['--workers=2', '--noevaluator'],
        '--job=tests.chaos.job:job',
        '--param=slow_ms=10',  # so that it takes more than three seconds on any machine
        '--batch_size=16',
        '--export=none',
        f'--model_dir={tmp_path}/run',
        '--max_steps=300',
        '--save_checkpoints_secs=1',
        '--keep_checkpoints=0',
    )
    saved = checkpoints(tmp_path / 'run')
    assert saved[0] == 0 and saved[-1] == 300
    assert len(saved) > 2, saved


def outputs_of_two(program, *args) -> list:
    """The outputs of a program that two workers run."""
    with ports.claim(2) as claimed:
        cluster = tf_config.make(2, 0, False, [f'127.0.0.1:{port}' for port in claimed.ports])
        programs = []
        with contextlib.ExitStack() as stack:
            for task in cluster.tasks:
                programs.append(
                    stack.enter_context(
                        launch.start(
                            [sys.executable, launch.REPOSITORY / 'tests/end_to_end/programs' / program, *args],
                            TF_CONFIG=tf_config.render(cluster, task),
                            PYTHONPATH=os.pathsep.join([str(launch.REPOSITORY), str(EXAMPLES)]),
                        )
                    )
                )
            ended = [launch.finished(running) for running in programs]
    return [launch.checked(one).output for one in ended]


def test_all_reduces_in_nested_functions_take_turns():
    for output in outputs_of_two('nested_all_reduces.py'):
        assert 'sum 1064.0 made 200 at once 1' in output


def test_saving_listeners_are_heard_and_may_stop_all(tmp_path):
    outputs = outputs_of_two('listeners.py', tmp_path / 'run')
    assert all('left' in output for output in outputs)
    assert [line for line in outputs[0].splitlines() if line.startswith('listener')] == [
        'listener: saved 0',
        'listener: saved 20',
        'listener: saved 40',
    ]
    assert 'listener: saved' not in outputs[1]
    assert checkpoints(tmp_path / 'run') == [0, 20, 40]


def test_ctrl_c_of_a_single_process_says_how_to_go_on(tmp_path):
    command = [
        sys.executable,
        '-m',
        'estimator_trainer',
        *SMALL,
        f'--model_dir={tmp_path}/run',
        '--max_steps=100000000',
        '--log_every_steps=10',
    ]
    with launch.start(command, cwd=EXAMPLES) as process:
        for line in process.stdout:
            if 'step 10/' in line:
                break
        os.kill(process.pid, signal.SIGINT)
        ended = launch.finished(process)
    assert ended.code == 130, ended.output
    assert 'interrupted' in ended.output and 'Traceback' not in ended.output


def test_kill_9_of_the_launcher_leaves_nothing(tmp_path):
    command = [
        launch.REPOSITORY / 'run_local_cluster.sh',
        '--workers=2',
        '--',
        *SMALL,
        f'--model_dir={tmp_path}/run',
        '--max_steps=100000000',
    ]
    with launch.start(command, cwd=EXAMPLES) as process:
        for line in process.stdout:
            if 'step 100/' in line:
                break
        assert len(launch.processes_naming(tmp_path)) >= 4  # two workers, evaluator, launcher
        os.kill(process.pid, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while left := launch.processes_naming(tmp_path):
            assert time.monotonic() < deadline, left
            time.sleep(0.05)
