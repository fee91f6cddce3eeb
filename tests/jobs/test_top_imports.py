"""Whether a job is loaded before TensorFlow is there."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.parametrize(
    'text',
    [
        'import tensorflow',
        'try:\n    import tensorflow as tf\nexcept ImportError:\n    tf = None',
        'print("runs")\nimport tensorflow',
        'from u_helper import x',
        'def late():\n    pass\nclass Wide:\n    import u_helper',
        'from estimator_trainer import data\ndata.array_batches',
        'from estimator_trainer.data import array_batches',
    ],
)
def test_a_job_that_wants_tensorflow_waits_for_it(tmp_path, text):
    (tmp_path / 'u_helper.py').write_text('import tensorflow.compat.v1 as x')
    (tmp_path / 'u_heavy.py').write_text(text + '\nfrom estimator_trainer.jobs import Job\njob = Job(print)')
    script = (
        'import sys\n'
        'from estimator_trainer import jobs\n'
        'assert jobs.load_early("u_heavy:job") is None\n'
        'left = {"u_heavy", "u_helper", "tensorflow", "estimator_trainer.data"} & set(sys.modules)\n'
        'assert not left, left\n'
    )
    done = subprocess.run(
        [sys.executable, '-c', script],
        cwd=tmp_path,
        timeout=300,
        text=True,
        env={**os.environ, 'PYTHONPATH': str(ROOT)},
        capture_output=True,
    )
    assert (done.returncode, done.stdout) == (0, ''), done.stderr  # nothing of the job has run
