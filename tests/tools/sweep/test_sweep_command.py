"""The command: real trials of a small job, in processes."""

import importlib.util
import json
import os
import signal
import sys

import pytest

from estimator_trainer import exit_codes
from estimator_trainer.tools.sweep import sweep_command
from tests.end_to_end import launch

needs_optuna = pytest.mark.skipif(importlib.util.find_spec('optuna') is None, reason='needs Optuna')
JOB = """
import os, sys, time
import numpy as np
from estimator_trainer.jobs import Job

def input_fn(mode, params, input_context):
    from estimator_trainer.data import array_batches
    while os.path.exists('hold') and sys.argv[-1].endswith('trial-0002'):
        time.sleep(0.01)  # until the test has ended this trial
    x = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]
    return array_batches({'x': x}, 3 * x[:, 0], mode, params, input_context)

def make_estimator(run_config, params):
    import tensorflow as tf
    tf1 = tf.compat.v1
    optimizer = tf1.train.GradientDescentOptimizer(params['rate'])
    columns = [tf.feature_column.numeric_column('x')]
    return tf1.estimator.LinearRegressor(
        columns, optimizer=optimizer, loss_reduction=tf1.losses.Reduction.SUM_OVER_BATCH_SIZE, config=run_config)

job = Job(make_estimator=make_estimator, input_fn=input_fn, params={'rate': 0.1})
"""
SPACE = '--param-space=rate:log:1e-2:1e-1'


def argv(folder, *flags):
    sweep = [sys.executable, '-m', 'estimator_trainer', 'sweep', '--trials=3', SPACE, *flags, '--']
    return [
        *sweep,
        '--job=small_job:job',
        '--max_steps=20',
        '--save_checkpoints_steps=10',
        f'--model_dir={folder}/sweep',
    ]


def test_split():
    given = ['--param-space=a-b:log:1:2', '--katib-metrics', '--', '--param-x=1']
    assert sweep_command.split(given) == (['--param_space=a-b:log:1:2', '--katib_metrics'], ['--param-x=1'])
    assert sweep_command.split(['--trials=3']) == (['--trials=3'], [])


@pytest.mark.slow
@needs_optuna
def test_three_trials_one_of_them_interrupted(tmp_path):
    (tmp_path / 'small_job.py').write_text(JOB)
    out = tmp_path / 'katib.txt'
    (tmp_path / 'hold').touch()
    with launch.start(argv(tmp_path), cwd=tmp_path, TF_CPP_MIN_LOG_LEVEL='2') as process:
        for line in process.stdout:
            if 'trial 2 of 3: ' in line:
                break
        refused = launch.run(argv(tmp_path), cwd=tmp_path)
        assert refused.code == exit_codes.USAGE and 'runs a sweep there' in refused.output
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=300)
        assert process.returncode == exit_codes.INTERRUPTED, said
    (tmp_path / 'hold').unlink()
    left = json.loads((tmp_path / 'sweep' / 'sweep.json').read_text())
    assert left['state'] == 'stopped' and [trial['state'] for trial in left['trials']] == ['done', 'running']
    done = launch.checked(launch.run(argv(tmp_path, f'--katib-metrics={out}'), cwd=tmp_path, timeout=300))
    document = json.loads((tmp_path / 'sweep' / 'sweep.json').read_text())
    assert document['state'] == 'done' and [trial['state'] for trial in document['trials']] == ['done'] * 3
    for trial in document['trials']:
        (*_, last) = launch.metrics(trial['model_dir'])
        config = json.loads(open(os.path.join(trial['model_dir'], 'config.json')).read())
        assert (trial['value'], trial['step']) == (last['loss'], 20)
        assert config['params']['rate'] == trial['params']['rate']
    best = min(document['trials'], key=lambda trial: trial['value'])
    assert f'best: trial {best["trial"]}, loss ' in done.output and document['best']['trial'] == best['trial']
    assert len([line for line in out.read_text().splitlines() if ' loss=' in line]) == 6
    other = launch.run([*argv(tmp_path), '--batch_size=32'], cwd=tmp_path)
    assert other.code == exit_codes.USAGE and 'batch_size: 64 there, 32 now' in other.output
    side_by_side = launch.run([*argv(tmp_path, '--parallel=2'), '--metrics_port=9400'], cwd=tmp_path)
    assert side_by_side.code == exit_codes.USAGE and 'cannot share a port' in side_by_side.output
