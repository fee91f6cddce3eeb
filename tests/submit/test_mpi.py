"""Open MPI starts the main job."""

import os
import subprocess
import sys

import launch
import pytest

from tests.submit import engines
from tests.submit.hosts import Hosts

pytestmark = pytest.mark.slow

RUN_SECS = 300


@pytest.fixture(scope='module')
def open_mpi(can_have_hosts):
    problem = engines.missing('openmpi-bin')
    if problem:
        pytest.skip(f'Open MPI: {problem}')
    version = subprocess.run(['mpirun', '--version'], capture_output=True, text=True, timeout=300).stdout
    if 'Open MPI' not in version:
        pytest.skip(f'Open MPI: mpirun is another: {version.splitlines()[:1]}')


def test_two_workers_reach_the_accuracy(open_mpi, tmp_path, data_dir):
    with Hosts() as hosts:
        done = launch.run(
            [
                *hosts.on(0),
                'mpirun',
                '--allow-run-as-root',
                '--bind-to',
                'none',
                '--oversubscribe',
                '-n',
                '2',
                sys.executable,
                '-m',
                'estimator_trainer',
                f'--flagfile={launch.CONFIGS}/mnist_5k.flags',
                '--batch_size=32',
                '--intra_op_threads=1',
                f'--model_dir={tmp_path}/run',
                f'--data_dir={data_dir}',
                '--hosts=localhost,localhost',
            ],
            timeout=RUN_SECS,
            TMPDIR=os.fspath(tmp_path),
        )
    assert done.code == 0, done.output
    assert 'cluster from Open MPI' in done.output
    assert launch.metrics(tmp_path / 'run')[-1]['accuracy'] >= 0.965
