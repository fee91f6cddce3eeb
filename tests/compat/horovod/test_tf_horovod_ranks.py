"""Programs that import horovod.tensorflow, with two real ranks and without Horovod."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[3]
PROGRAMS = pathlib.Path(__file__).parent / 'programs'
BOUND_SECS = 200


@pytest.fixture
def cluster(tmp_path):
    """cluster(program, flags of the cluster) -> (exit code, {rank: its last line of JSON}, stderr)."""

    def cluster(program, *flags):
        argv = ['cluster', f'--program={PROGRAMS / program}', '--horovod', '--isolate=off', '--backoff_secs=.01']
        done = subprocess.run(
            [sys.executable, '-m', 'estimator_trainer', *argv, *flags, '--', str(tmp_path)],
            cwd=tmp_path,
            env={**os.environ, 'PYTHONPATH': str(ROOT)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BOUND_SECS,
        )
        lines = [line.partition('] ') for line in done.stdout.splitlines()]
        said = {int(task[-1]): json.loads(line) for task, _, line in lines if line.startswith('{')}
        return done.returncode, said, done.stderr

    return cluster


def oracle(steps, passes):
    """Weights after SGD with the mean of both ranks' gradients, each the sum of `passes` passes; in NumPy.

    The model of programs/every_optimizer.py: rank r has in pass t x = data[r, t], and the gradient of 0.5 * (x · w)² is
    (x · w) x; of an embedding row e the gradient of 0.5 * e² is e.
    """
    data = np.random.RandomState(0).normal(size=(2, steps, 3)).astype(np.float32)
    dense, rows = np.ones(3, np.float32), np.ones((4, 2), np.float32)
    total, total_rows = np.zeros_like(dense), np.zeros_like(rows)
    for step in range(steps):
        for rank in range(2):
            x = data[rank, step]
            total += (x @ dense) * x / 2
            for row in (rank, 3):
                total_rows[row] += rows[row] / 2
        if step % passes == passes - 1:
            dense, rows = dense - 0.1 * total, rows - 0.1 * total_rows
            total, total_rows = np.zeros_like(dense), np.zeros_like(rows)
    return dense, rows


def test_every_optimizer_computes_what_numpy_does(cluster):
    code, said, err = cluster('every_optimizer.py')
    assert code == 0, err
    assert said[0] == said[1] and len(said[0]) == 8
    for name, (dense, rows, steps) in said[0].items():
        expected_dense, expected_rows = oracle(8, 4 if '4 passes' in name else 1)
        np.testing.assert_allclose(dense, expected_dense, 2e-3 if 'fp16' in name else 1e-5, err_msg=name)
        np.testing.assert_allclose(rows, expected_rows, 2e-3 if 'fp16' in name else 1e-5, err_msg=name)
        assert steps == (8 if 'v1' in name or '4 passes' in name or 'keras' in name else None)


def test_an_estimator_goes_on_after_a_rank_was_killed(cluster):
    code, said, err = cluster('killed_once.py', '--tf1')
    assert code == 0, err
    assert f'killed by signal {int(signal.SIGKILL)}' in err or 'SIGKILL' in err
    assert said[0]['step'] == said[1]['step'] == 40
    assert said[0]['weights'] == said[1]['weights']
    assert said[0]['began'] == 20
