"""What a job logs appears once, wherever it runs."""

import sys

import launch
import pytest
from programs import noisy_job

pytestmark = pytest.mark.slow

PROGRAMS = launch.REPOSITORY / 'tests' / 'end_to_end' / 'programs'
SAID = {*noisy_job.LINES, 'print', 'hook'}


def counts(output, begin='') -> dict:
    """How often each thing is said in the lines that begin so."""
    lines = [line for line in output.splitlines() if line.startswith(begin)]
    found = {name: sum(line.endswith(f'says {name}') for line in lines) for name in SAID - {'hook'}}
    return {**found, 'hook': sum('the_loss = ' in line and '(' not in line for line in lines)}


def test_of_a_process_alone(tmp_path):
    output = launch.trainer('--job=noisy_job:job', '--max_steps=20', f'--model_dir={tmp_path}/run', cwd=PROGRAMS).output
    assert counts(output) == dict.fromkeys(SAID, 1)
    assert 'is deprecated' not in output and 'Calling model_fn' not in output


def test_of_a_job_that_has_configured_logging(tmp_path):
    (tmp_path / 'configured.py').write_text(
        'import logging\n'
        "logging.basicConfig(level=logging.DEBUG, format='MINE %(levelname)s %(message)s')\n"
        'from noisy_job import job  # noqa\n'
    )
    flags = ['--job=configured:job', '--max_steps=20', f'--model_dir={tmp_path}/run']
    output = launch.trainer(*flags, cwd=tmp_path, PYTHONPATH=f'{launch.REPOSITORY}:{PROGRAMS}').output
    assert counts(output) == dict.fromkeys(SAID, 1)
    assert 'MINE INFO says own-info' in output


def test_of_a_cluster(tmp_path):
    flags = ['--job=noisy_job:job', '--max_steps=20', f'--model_dir={tmp_path}/run']
    output = launch.cluster(['--workers=2', '--noevaluator'], *flags, cwd=PROGRAMS).output
    assert counts(output, '[worker:0]') == dict.fromkeys(SAID, 1)
    assert counts(output) == {name: 2 for name in SAID} | {'hook': counts(output)['hook']}


@pytest.mark.parametrize('main', ['main([])', 'tf.compat.v1.app.run(main)'])
def test_of_a_program(main, tmp_path):
    (tmp_path / 'program.py').write_text(
        'import tensorflow as tf\n'
        'import noisy_job\n'
        'def main(_):\n'
        '    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.INFO)\n'
        f"    estimator = tf.estimator.Estimator(noisy_job.model_fn, '{tmp_path}/run')\n"
        "    estimator.train(lambda: noisy_job.input_fn('train', {}), steps=20)\n"
        f'{main}\n'
    )
    command = [sys.executable, '-m', 'estimator_trainer.compat', 'run', 'program.py']
    output = launch.run(command, cwd=tmp_path, PYTHONPATH=f'{launch.REPOSITORY}:{PROGRAMS}').output
    ours = [name for name in SAID if name.startswith('tf') or name in ('got-info', 'print', 'hook')]
    found = counts(output.replace('] says', ' says'))
    assert {name: found[name] for name in ours} == dict.fromkeys(ours, 1)
    assert sum('Calling model_fn.' in line for line in output.splitlines()) == 1
