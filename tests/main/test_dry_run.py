"""What --dry_run shows of a run, without a run."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
from unittest import mock

import pytest

from estimator_trainer.config import trainer_config
from estimator_trainer.data import prepared_sets
from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import Job
from estimator_trainer.run_dir import protocol
from estimator_trainer.training import dry_run
from estimator_trainer.training import plan as planning

ROOT = pathlib.Path(__file__).parents[2]
JOB = Job(model_fn=print, best_metric='accuracy', best_mode='max', params={'hidden': 3})
OWN = Job(model_fn=print, input_fn=print, num_train_examples=1000)


def shown(tmp_path, *argv, job=JOB, sizes=prepared_sets.Sizes(4000, 1000), url=''):
    config = trainer_config.parse(['trainer', f'--model_dir={tmp_path}', *argv])
    plan = dataclasses.replace(planning.make(config, {}), job=job, job_params=dict(job.params))
    quick = mock.patch.dict(os.environ, {protocol.QUICK_CHECK: '1'})  # TFDS is not asked for sets that it lacks
    with mock.patch.object(prepared_sets, 'sizes', return_value=sizes), quick:
        return dry_run.lines(plan, url)


CASES = {  # flags, the job, the lines
    'epochs': (
        ['--epochs=20', '--batch_size=64'],
        JOB,
        [
            'training: 20 epochs of 4,000 examples, 1,250 steps; seed 1',
            'data: mnist_5k, 4,000 examples to train on, 1,000 to evaluate on',
            'checkpoints: every 600 s, and at the end; the newest 5 are kept',
            'evaluation data: the whole eval split',
            'early stop: none',
            'exports: best (accuracy, max), final',
            'start: at step 0; the model_dir holds no checkpoint',
            "params {'hidden': 3}",
        ],
    ),
    'steps': (
        ['--max_steps=300', '--seed=7', '--deterministic', '--max_secs=9', '--save_checkpoints_steps=50'],
        JOB,
        [
            'training: 300 steps, 4.8 epochs of 4,000 examples, at most 9 s; seed 7, repeatable bit for bit',
            'checkpoints: every 50 steps, and at the end; the newest 5 are kept',
        ],
    ),
    'early stop': (
        ['--max_steps=9', '--stop_metric=auc', '--stop_patience=2', '--eval_steps=5', '--export=none'],
        JOB,
        [
            'early stop: when auc (higher is better) has not improved for 2 evaluations in a row; '
            'each checkpoint is evaluated (every 600 s)',
            'evaluation data: 5 batches',
            'exports: none',
        ],
    ),
    'own data': (
        ['--epochs=3', '--batch_size=10', '--eval_batch_size=500'],
        OWN,
        [
            'evaluation data: the whole eval split, 500 examples a batch',
            'training: 3 epochs of 1,000 examples, 300 steps; seed 1',
            "data: the job's input_fn; 1,000 examples to train on",
            'exports: none, because the job has no serving_input_fn',
        ],
    ),
}


@pytest.mark.parametrize('argv, job, lines', CASES.values(), ids=CASES)
def test_what_is_shown(tmp_path, argv, job, lines):
    found = shown(tmp_path, *argv, job=job)
    assert [line for line in lines if line not in found] == [], found


def test_a_set_that_is_not_prepared(tmp_path):
    found = shown(tmp_path, '--dataset=cifar10', '--epochs=3', sizes=None)
    assert 'data: cifar10, which is not prepared yet; the run prepares it' in found
    assert 'training: 3 epochs; the examples are counted when the run starts; seed 1' in found


def test_epochs_of_unknown_data_are_refused(tmp_path):
    with pytest.raises(UsageError, match='--epochs=3.0: the job does not say how many'):
        shown(tmp_path, '--epochs=3', job=Job(model_fn=print, input_fn=print))


def test_where_a_run_begins(tmp_path):
    (tmp_path / 'checkpoint').write_text('model_checkpoint_path: "model.ckpt-1200"\n')
    stop = ('--stop_metric=loss', '--stop_mode=min')
    assert 'start: resumes at step 1,200 of 2,000' in shown(tmp_path, '--max_steps=2000', *stop)
    assert 'start: nothing is left to train; the checkpoint is of step 1,200' in shown(tmp_path, '--max_steps=1200')
    assert any('s3://b/run has come to' in line for line in shown(tmp_path, '--max_steps=5', url='s3://b/run'))
    os.mkdir(tmp_path / 'eval')
    protocol.write_json(
        str(tmp_path / 'eval' / 'stop.json'),
        {'metric': 'loss', 'mode': 'min', 'patience': 3, 'min_delta': 0.0, 'step': 900},
    )
    (said,) = (line for line in shown(tmp_path, '--max_steps=2000', *stop) if line.startswith('start'))
    assert said == 'start: nothing is left to train; the run was stopped early by --stop_metric at step 900'


def prepared(folder, **splits):
    folder.mkdir(parents=True)
    described = [{'name': name, 'shardLengths': [str(count), '1']} for name, count in splits.items()]
    (folder / 'dataset_info.json').write_text(json.dumps({'splits': described}))


def test_the_sizes_of_prepared_sets(tmp_path):
    prepared(tmp_path / 'cifar' / '3.0.2', train=1, test=1)
    prepared(tmp_path / 'cifar' / '3.0.10', train=50, test=10)
    prepared(tmp_path / 'emnist' / 'letters' / '1.0.0', train=7, validation=3)
    assert prepared_sets.sizes('cifar', str(tmp_path)) == (51, 11)
    assert prepared_sets.sizes('cifar:3.0.2', str(tmp_path)) == (2, 2)
    assert prepared_sets.sizes('emnist/letters', str(tmp_path)) == (8, 4)
    assert prepared_sets.sizes('emnist', str(tmp_path)) is None
    assert prepared_sets.sizes('mnist_5k', str(tmp_path)) == (4000, 1000)


HEAVY = """
print('the module runs')
import tensorflow as tf
from estimator_trainer.jobs import Job
job = Job(model_fn=print, input_fn=print, params={'hidden': 8})
"""


def test_tensorflow_is_brought_up_for_a_job_that_imports_it(tmp_path):
    (tmp_path / 'u_heavy.py').write_text(HEAVY)
    done = subprocess.run(
        [sys.executable, '-m', 'estimator_trainer', '--job=u_heavy:job', '--model_dir=model', '--max_steps=5']
        + ['--dry_run', '--param=hiden=3'],
        cwd=tmp_path,
        env={**os.environ, 'PYTHONPATH': str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stdout) == (64, 'the module runs\n'), done.stderr
    assert "--param=hiden=3: the job has no param 'hiden' (did you mean 'hidden'?)" in done.stderr
    assert 'takes some seconds' in done.stderr and 'mnist' not in done.stderr
