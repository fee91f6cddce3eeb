"""Every loop as a real program: alone and as two workers, stopped and resumed, with what it leaves."""

import json
import os
import shutil
import signal
import sys

import launch
import pytest

from estimator_trainer.config.job_flags import LOOPS

pytestmark = pytest.mark.slow

JOB = [
    '--job=mnist',
    '--dataset=mnist_5k',
    '--param=optimizer=momentum',
    '--param=learning_rate=0.05',
    '--param=schedule=cosine',
    '--param=l2=0.001',
    '--deterministic',
    '--seed=3',
]
SHORT = [*JOB, '--max_steps=20', '--log_every_steps=1']
HELD = '--job=tests.end_to_end.held_job:job'  # comes after --job=mnist, and is that job
LONG = [*JOB, HELD, '--max_steps=200', '--log_every_steps=5', '--export=none', '--save_checkpoints_steps=70']
TOLERANCE = 1e-5


@pytest.fixture(scope='module')
def by_two_workers(tmp_path_factory, data_dir):
    """loop -> the model_dir of two workers. test_parity.py shows that they compute what one process does."""
    model_dirs = {}

    def trained(loop):
        if loop not in model_dirs:
            model_dir = tmp_path_factory.mktemp(loop) / 'run'
            flags = [*SHORT, f'--loop={loop}', f'--data_dir={data_dir}', f'--model_dir={model_dir}']
            launch.cluster(['--workers=2', '--noevaluator'], *flags, '--batch_size=32')
            model_dirs[loop] = model_dir
        return model_dirs[loop]

    return trained


def differ(one, two) -> float:
    """The largest difference of two checkpoints' weights, relative to the largest weight."""
    assert one.keys() == two.keys()
    largest = max(abs(value) for values in one.values() for value in values)
    return max(abs(a - b) for name in one for a, b in zip(one[name], two[name], strict=True)) / largest


@pytest.mark.parametrize('loop', LOOPS)
def test_a_checkpoint_of_two_workers_is_evaluated_without_a_strategy(by_two_workers, loop, tmp_path, data_dir):
    before = launch.metrics(by_two_workers(loop))[-1]
    shutil.copytree(by_two_workers(loop), tmp_path / 'run')
    shutil.rmtree(tmp_path / 'run/eval')
    done = launch.trainer(
        *SHORT,
        f'--loop={loop}',
        f'--data_dir={data_dir}',
        '--batch_size=64',
        '--strategy=none',
        f'--model_dir={tmp_path}/run',
    )
    assert 'has reached' in done.output
    after = launch.metrics(tmp_path / 'run')[-1]
    assert after['accuracy'] == before['accuracy']
    assert after['loss'] == pytest.approx(before['loss'], rel=1e-6)


SERVE = """
import glob, json, sys
import numpy as np, tensorflow as tf
serve = tf.saved_model.load(glob.glob(sys.argv[1] + "/1*/")[-1]).signatures["serving_default"]
for batch in (1, 7):
    out = serve(image=tf.zeros([batch, 28, 28, 1], tf.uint8))
    assert set(out) == {"logits", "probabilities", "classes"}, out
    assert out["probabilities"].shape == (batch, 10) and out["classes"].shape == (batch,)
print(json.dumps(out["logits"][0].numpy().tolist()))
"""


@pytest.mark.parametrize('name', ['best', 'final'])
def test_every_loop_exports_the_same(by_two_workers, name):
    logits = []
    for loop in LOOPS:
        served = launch.checked(launch.run([sys.executable, '-c', SERVE, by_two_workers(loop) / 'export' / name]))
        logits.append(json.loads(served.output.splitlines()[-1]))
    assert logits[0] == pytest.approx(logits[1], abs=1e-4)
    assert logits[1] == pytest.approx(logits[2], abs=1e-4)


def read_until(process, text):
    for line in process.stdout:
        if text in line:
            return
    raise AssertionError(f'it has ended without {text!r}')


def test_sigterm_and_the_same_command_again(tmp_path, data_dir):
    """Of custom_loop, in the middle of a call of several steps. tests.chaos has the other loops."""
    command = [
        sys.executable,
        '-m',
        'estimator_trainer',
        *LONG,
        '--loop=custom_loop',
        '--batch_size=64',
        f'--data_dir={data_dir}',
        f'--model_dir={tmp_path}/run',
    ]
    hold = tmp_path / 'hold'  # after the checkpoint of step 70, which ends a call of several steps
    hold.touch()
    with launch.start(command, HELD_BY=str(hold), HELD_AT='71') as process:
        read_until(process, 'step 15/')
        os.kill(process.pid, signal.SIGTERM)
        read_until(process, 'received SIGTERM')
        hold.unlink()
        ended = launch.finished(process)
    assert ended.code == 143 and 'saved at step' in ended.output, ended.output
    again = launch.checked(launch.run(command))
    assert 'resumes at step' in again.output
    undisturbed = [*LONG, '--loop=custom_loop', '--batch_size=64', f'--data_dir={data_dir}']
    launch.trainer(*undisturbed, f'--model_dir={tmp_path}/undisturbed')
    assert differ(launch.weights(tmp_path / 'run'), launch.weights(tmp_path / 'undisturbed')) == 0


def test_a_worker_is_killed(tmp_path, data_dir):
    """The supervisor starts the gang of keras_fit again; the run ends as one that was never disturbed."""
    model_dir = tmp_path / 'run'
    cluster = ['--workers=2', '--noevaluator']
    flags = [*LONG, '--loop=keras_fit', '--batch_size=32', f'--data_dir={data_dir}']
    command = [launch.REPOSITORY / 'run_local_cluster.sh', *cluster, '--', *flags, f'--model_dir={model_dir}']
    hold = tmp_path / 'hold'
    hold.touch()
    with launch.start(command, HELD_BY=str(hold), HELD_AT='141') as process:
        read_until(process, 'step 85/')
        os.kill(launch.worker_process(model_dir, 1), signal.SIGKILL)
        hold.unlink()
        ended = launch.checked(launch.finished(process))
    assert 'resumes at step' in ended.output
    launch.cluster(cluster, *flags, f'--model_dir={tmp_path}/undisturbed')
    assert differ(launch.weights(model_dir), launch.weights(tmp_path / 'undisturbed')) == 0


def test_a_loss_that_is_not_a_number_ends_the_run(tmp_path, data_dir):
    for loop in ('keras_fit', 'custom_loop'):
        done = launch.run(
            [
                sys.executable,
                '-m',
                'estimator_trainer',
                '--job=mnist',
                f'--loop={loop}',
                '--param=learning_rate=1e30',
                '--max_steps=50',
                f'--data_dir={data_dir}',
                f'--model_dir={tmp_path}/{loop}',
            ]
        )
        assert done.code == 70, done.output
