"""A real Ray cluster of two nodes runs what the driver of a job asks of it."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import launch
import pytest

from estimator_trainer.run_dir import file_names, protocol
from tests.chaos import faults, files
from tests.chaos.stage import JOB, SAVING
from tests.storage import s3_server
from tests.submit import engines
from tests.submit.hosts import Hosts

pytestmark = pytest.mark.slow

yaml = pytest.importorskip('yaml', reason='PyYAML, which reads job descriptions, is not installed')

BOUND_SECS = 480
EXAMPLE = launch.REPOSITORY / 'deploy' / 'mnist_two_workers.yaml'
PROGRAM = pathlib.Path(__file__).parent / 'programs' / 'two_raylets.py'


@pytest.fixture(scope='module')
def ray_python(can_have_hosts, pytestconfig):
    try:
        return engines.python(pytestconfig.option.engines, 'ray')
    except FileNotFoundError as error:
        pytest.skip(f'Ray: {error}')


@pytest.fixture
def hosts():
    with Hosts() as hosts:
        yield hosts


@contextlib.contextmanager
def driver(ray_python, hosts, folder, description, beside=(), **changes):
    """The driver of a job on a cluster, under way. All of it ends with `hosts`.

    Args:
        beside: a command to which the cluster's is given.
        changes: of the description.
    """
    description = {
        **description,
        'model_dir': f'{folder}/run',
        'python': sys.executable,
        'working_dir': str(launch.REPOSITORY),
        **changes,
    }
    job = folder / 'job.yaml'
    job.write_text(yaml.safe_dump(description, sort_keys=False))
    command = [*hosts.on(0), *beside, ray_python, PROGRAM, job, BOUND_SECS]
    with tempfile.TemporaryDirectory(prefix='ray', dir='/tmp') as scratch:  # Ray's sockets want short paths
        # Ray lets its actors and their tasks give way to all else, such as the tests beside these.
        settings = {'RAY_USAGE_STATS_ENABLED': '0', 'RAY_TMPDIR': scratch, 'RAY_worker_niceness': '0'}
        with launch.start(command, **settings) as running:
            yield running


def raylets(job) -> int:
    """The process of the Ray cluster that runs the job."""
    for folder in pathlib.Path('/proc').glob('[0-9]*'):
        with contextlib.suppress(OSError):
            if (folder / 'cmdline').read_text().split('\0')[1:3] == [str(PROGRAM), str(job)]:
                return int(folder.name)
    raise AssertionError('no such process')


def wait_for_step(model_dir, step, driver) -> None:
    board = os.path.join(model_dir, file_names.TRAINING)
    faults.until(
        lambda: (protocol.read_json(board).get('step') or 0) >= step or driver.poll() is not None,
        f'no step {step}',
        BOUND_SECS,
    )


def test_two_workers_on_two_nodes_reach_the_accuracy(ray_python, hosts, tmp_path, data_dir):
    description = yaml.safe_load(EXAMPLE.read_text())
    with driver(
        ray_python, hosts, tmp_path, description, args=[*description['args'], f'--data_dir={data_dir}']
    ) as running:
        output = launch.checked(launch.finished(running, timeout=BOUND_SECS)).output
    assert 'done, after 0 restart(s)' in output
    assert launch.metrics(tmp_path / 'run')[-1]['accuracy'] >= 0.965


def test_a_killed_task_and_a_lost_node_change_nothing(ray_python, hosts, tmp_path, undisturbed):
    description = {
        'name': 'chaos',
        'flagfile': '/dev/null',
        'args': [*JOB, *SAVING, '--param=slow_ms=100'],
        'roles': {'worker': {'count': 2, 'memory_gib': 2}},
    }
    model_dir, scene = tmp_path / 'run', faults.Scene(tmp_path)
    scene.plan([faults.Fault(at='', moment='', by_step=step) for step in (30, 60)])

    def wait_for_life(number):
        def lives():
            return sum(event['task'] == 'worker:0' for event in scene.events('session'))

        faults.until(lambda: lives() >= number or running.poll() is not None, f'no life {number}', BOUND_SECS)

    environment = {faults.FOLDER: str(tmp_path)}
    with driver(ray_python, hosts, tmp_path, description, environment=environment) as running:
        wait_for_step(model_dir, 25, running)
        os.kill(launch.worker_process(model_dir, 1), signal.SIGKILL)
        wait_for_life(2)
        scene.release(0)
        wait_for_step(model_dir, 45, running)
        os.kill(raylets(tmp_path / 'job.yaml'), signal.SIGUSR1)
        wait_for_life(3)
        scene.release(1)
        output = launch.checked(launch.finished(running, timeout=BOUND_SECS)).output
    assert 'worker:1 ended with SIGKILL' in output
    assert 'a node was replaced' in output
    assert 'done, after 2 restart(s)' in output
    resumed = [int(step) for step in re.findall(r'resumes at step (\d+) of 100', output)]
    assert len(resumed) == 4 and min(resumed) >= 20, output  # both workers, twice
    assert files.named(model_dir) == 100
    assert files.differences(model_dir, undisturbed.two_workers()) == []


def test_a_run_in_a_store_is_secured_by_a_key_that_ray_hands_over(ray_python, hosts, tmp_path, data_dir):
    pytest.importorskip('moto', reason='moto, a server of S3, is not installed')
    description = yaml.safe_load(EXAMPLE.read_text())
    args = [*description['args'], '--secure=required', '--epochs=', '--max_steps=40', f'--data_dir={data_dir}']
    (tmp_path / 'server').mkdir()
    beside = [sys.executable, PROGRAM.parent / 'with_moto.py', tmp_path / 'server']
    stored = {'model_dir': f's3://{s3_server.BUCKET}/run', 'scratch_dir': str(tmp_path / 'scratch'), 'args': args}
    with driver(ray_python, hosts, tmp_path, description, beside, **stored) as running:
        output = launch.checked(launch.finished(running, timeout=BOUND_SECS)).output
    assert 'done, after 0 restart(s)' in output and output.count('secured: only tasks of this run') == 2
    assert subprocess.run(['grep', '-rl', 'PRIVATE KEY', tmp_path], capture_output=True).stdout == b''
