"""The main job, alone and as a cluster, as the README has it."""

import fnmatch
import json
import sys
import time

import launch
import pytest

from estimator_trainer.run_dir import written_files

pytestmark = pytest.mark.slow

MAIN = f'--flagfile={launch.CONFIGS}/mnist_5k.flags'
SERVE = """
import json, sys, glob
import numpy as np, tensorflow as tf
path = sorted(glob.glob(sys.argv[1] + "/*/"))[-1]
serve = tf.saved_model.load(path).signatures["serving_default"]
for batch in (1, 7):
    out = serve(image=tf.zeros([batch, 28, 28, 1], tf.uint8))
    assert out["probabilities"].shape == (batch, 10), out
    assert out["classes"].shape == (batch,) and out["logits"].shape == (batch, 10)
    np.testing.assert_allclose(out["probabilities"].numpy().sum(1), 1, rtol=1e-5)
print("served")
"""


@pytest.fixture(scope='module')
def trained(tmp_path_factory, data_dir):
    """The main job's model_dir, and what the trainer printed."""
    model_dir = tmp_path_factory.mktemp('main') / 'run'
    done = launch.trainer(MAIN, f'--model_dir={model_dir}', f'--data_dir={data_dir}')
    return model_dir, done.output


def test_reaches_its_accuracy(trained):
    model_dir, output = trained
    last = launch.metrics(model_dir)[-1]
    assert last['accuracy'] >= 0.975
    assert last['step'] == 1563
    assert f'accuracy {last["accuracy"]:.4f}' in output.splitlines()[-1]


def test_prints_no_noise(trained):
    _, output = trained
    foreign = [line for line in output.splitlines() if not line[:8].replace(':', '').isdigit()]
    assert foreign == []


def test_writes_its_files(trained):
    model_dir, _ = trained
    config = json.loads((model_dir / 'config.json').read_text())
    assert (config['job'], config['global_batch_size']) == ('mnist', 64)
    assert config['versions']['tensorflow']
    steps = [line['step'] for line in launch.metrics(model_dir, 'train')]
    assert steps == [*range(100, 1501, 100), 1563]
    assert list(model_dir.glob('events.out.tfevents.*'))


def test_every_file_it_writes_is_one_of_the_reference(trained):
    model_dir, _ = trained
    known = [path.replace('<time>', '*') for file in written_files.FILES for path in file.paths]
    patterns = [pattern + end for pattern in known for end in ('', '/*')]
    written = [str(path.relative_to(model_dir)) for path in model_dir.rglob('*') if path.is_file()]
    assert written
    assert [path for path in written if not any(fnmatch.fnmatch(path, pattern) for pattern in patterns)] == []


@pytest.mark.parametrize('name', ['best', 'final'])
def test_exports_serve_raw_images(trained, name):
    model_dir, _ = trained
    served = launch.run([sys.executable, '-c', SERVE, model_dir / 'export' / name])
    assert served.code == 0 and 'served' in served.output, served.output


def test_the_same_command_resumes(trained, data_dir):
    model_dir, _ = trained
    again = launch.trainer(MAIN, f'--model_dir={model_dir}', f'--data_dir={data_dir}', '--epochs=26')
    assert 'resumes at step 1563 of 1625' in again.output
    assert launch.metrics(model_dir)[-1]['step'] == 1625


def test_a_contradiction_is_refused_and_costs_nothing(trained, data_dir):
    model_dir, _ = trained
    before = sorted(path.name for path in model_dir.iterdir())
    refused = launch.run(
        [
            sys.executable,
            '-m',
            'estimator_trainer',
            MAIN,
            '--seed=2',
            f'--model_dir={model_dir}',
            f'--data_dir={data_dir}',
        ]
    )
    assert refused.code == 64
    assert 'seed: 1 there, 2 now' in refused.output
    assert sorted(path.name for path in model_dir.iterdir()) == before


@pytest.mark.parametrize(
    'shape', [['--workers=2'], ['--workers=3', '--noevaluator'], ['--workers=2', '--ps=1']], ids=' '.join
)
def test_as_a_cluster(shape, tmp_path, data_dir):
    model_dir = tmp_path / 'run'
    launch.cluster(shape, MAIN, f'--model_dir={model_dir}', f'--data_dir={data_dir}')
    assert launch.metrics(model_dir)[-1]['accuracy'] >= 0.965
    assert launch.metrics(model_dir, 'train')
    assert list((model_dir / 'export' / 'final').iterdir())
    assert not list(model_dir.glob('tmp_*'))
    assert launch.processes_naming(model_dir) == []


def test_a_finished_cluster_run_again_ends_at_once(tmp_path):
    flags = ['--job=spiral:job', '--max_steps=50', f'--model_dir={tmp_path}/run']
    shape = ['--workers=2', '--ps=1', '--noevaluator', '--drain_secs=20']
    examples = launch.REPOSITORY / 'docs' / 'examples'
    launch.cluster(shape, *flags, cwd=examples)
    exports = list((tmp_path / 'run/export/final').iterdir())
    again = launch.cluster(shape, *flags, cwd=examples)
    assert 'already' in again.output
    assert list((tmp_path / 'run/export/final').iterdir()) == exports


def test_an_evaluator_that_the_cluster_does_not_list_is_the_only_one(tmp_path):
    flags = ['--job=spiral:job', '--max_steps=200', f'--model_dir={tmp_path}/run']
    command = [sys.executable, '-m', 'estimator_trainer', *flags]
    cluster = {'chief': ['127.0.0.1:2222']}  # one process trains: nobody listens there

    def tf_config(role):
        return json.dumps({'cluster': cluster, 'task': {'type': role, 'index': 0}})

    examples = launch.REPOSITORY / 'docs' / 'examples'
    with launch.start(command, cwd=examples, TF_CONFIG=tf_config('evaluator')) as evaluator:
        deadline = time.monotonic() + 60
        while not (tmp_path / 'run/eval/.lock').exists():
            assert time.monotonic() < deadline and evaluator.poll() is None
        chief = launch.trainer(*flags, cwd=examples, TF_CONFIG=tf_config('chief'))
        launch.checked(launch.finished(evaluator))
    assert 'evaluation at step' not in chief.output
    steps = [line['step'] for line in launch.metrics(tmp_path / 'run')]
    assert steps == sorted(set(steps)) and steps[-1] == 200


def test_a_missing_data_set_says_what_to_do(tmp_path):
    done = launch.run(
        [
            sys.executable,
            '-m',
            'estimator_trainer',
            '--dataset=no_such_set',
            '--epochs=1',
            f'--model_dir={tmp_path}/run',
            f'--data_dir={tmp_path}/data',
        ]
    )
    assert done.code == 66
    assert 'mnist_5k' in done.output and '--data_dir' in done.output
    assert 'Traceback' not in done.output
