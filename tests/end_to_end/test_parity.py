"""All loops, in one process, on two replicas and on two workers, compute the same."""

import json
import pathlib
import sys

import launch
import pytest

pytestmark = pytest.mark.slow

PROGRAMS = pathlib.Path(__file__).parent / 'programs'
JOBS = {
    'mnist': ['--job=in_float64:mnist', '--param=learning_rate=0.1', '--seed=3'],
    'fashion_mnist': ['--job=in_float64:fashion_mnist', '--param=learning_rate=0.1', '--seed=3'],
}


def parity(*flags, code=0, timeout=900, cwd=None, **environment):
    done = launch.run(
        [sys.executable, '-m', 'estimator_trainer', 'parity', *flags], timeout=timeout, cwd=cwd, **environment
    )
    assert done.code == code, done.output
    return done.output


@pytest.mark.parametrize('job', JOBS)
def test_built_in_jobs(job, tmp_path, data_dir):
    """With L2, and a last batch that is short; that of the evaluation is as well."""
    parity(*JOBS[job], '--param=l2=0.001', '--steps=20', f'--out={tmp_path}', cwd=PROGRAMS, TFDS_DATA_DIR=str(data_dir))
    report = json.loads((tmp_path / 'parity.json').read_text())
    assert report['equal'] and len(report['pairs']) == 36
    assert max(pair['weight'] for pair in report['pairs']) <= 1e-12
    assert all(len(losses) == 20 and losses['19'] < losses['1'] for losses in report['losses'].values())
    assert {path.name for path in tmp_path.iterdir()} == {'parity.json', 'parity.html'}


def test_steps_of_two_batches(tmp_path, data_dir):
    """As one process and two replicas; the last batch of the last step is short."""
    flags = [*JOBS['mnist'], '--param=l2=0.001', '--steps=20', '--layouts=one,replicas,accumulated']
    parity(*flags, f'--out={tmp_path}', cwd=PROGRAMS, TFDS_DATA_DIR=str(data_dir))
    assert len(json.loads((tmp_path / 'parity.json').read_text())['pairs']) == 36


def test_says_where_a_loop_of_a_users_job_parts(tmp_path):
    flags = [
        '--job=parity_job:job',
        '--steps=6',
        '--batch_size=8',
        '--loops=estimator,custom_loop',
        '--layouts=one',
        f'--out={tmp_path}',
    ]
    assert 'EQUAL' in parity(*flags, cwd=PROGRAMS)
    output = parity(*flags, '--param=wrong_from=3', code=1, cwd=PROGRAMS)
    assert 'first: custom_loop, 1 process parts from estimator, 1 process at step 4' in output
    report = json.loads((tmp_path / 'parity.json').read_text())
    assert report['pairs'][0]['first']['variable'].startswith(('hidden/', 'out/'))
    assert 'custom_loop, 1 process parts' in (tmp_path / 'parity.html').read_text()


def test_a_run_that_fails_is_shown(tmp_path):
    output = parity('--job=mnist', '--param=optimizer=none', '--layouts=one', f'--out={tmp_path}', code=1)
    assert 'estimator, 1 process: exit code 64' in output and 'optimizer=none' in output


@pytest.mark.parametrize('flag', ['--batch_size=7', '--loops=keras', '--steps=0', '--layouts=one,one', '--nosuch=1'])
def test_wrong_flags(flag, tmp_path):
    assert flag.split('=')[0].lstrip('-') in parity(flag, f'--out={tmp_path}', code=64)
