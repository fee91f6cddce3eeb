"""A job in a file of one's own, and a canned Estimator: alone, and as two workers."""

import launch
import pytest

pytestmark = pytest.mark.slow

JOBS = launch.REPOSITORY / 'docs' / 'examples'


@pytest.mark.parametrize('job', ['spiral:job', 'canned:job'])
@pytest.mark.parametrize('workers', [1, 2])
def test_runs(job, workers, tmp_path):
    model_dir = tmp_path / 'run'
    flags = [
        f'--job={job}',
        f'--model_dir={model_dir}',
        '--max_steps=400',
        '--param=hidden=24',
        f'--batch_size={64 // workers}',
    ]
    if workers == 1:
        launch.trainer(*flags, cwd=JOBS)
    else:
        finished = launch.cluster(['--workers=2'], *flags, cwd=JOBS)
        assert 'train on the same examples' not in finished.output
    last = launch.metrics(model_dir)[-1]
    assert last['step'] == 400
    assert last['accuracy'] > 0.9
    assert list((model_dir / 'export' / 'final').iterdir())


@pytest.mark.parametrize('loop', ['estimator', 'keras_fit', 'custom_loop'])
def test_workers_that_train_on_the_same_examples_are_told_so_once(loop, tmp_path):
    (tmp_path / 'unsharded.py').write_text(
        'import dataclasses\n'
        'from estimator_trainer.jobs import mnist\n\n\n'
        'def input_fn(mode, params):\n'
        '    from estimator_trainer.data import sources\n\n'
        "    return sources.load('mnist_5k', '', 1024).input_fn(mode, params)\n\n\n"
        'job = dataclasses.replace(mnist.job, model_fn=None, input_fn=input_fn)\n'
    )
    flags = ['--job=unsharded:job', f'--loop={loop}', '--max_steps=40', '--batch_size=8', f'--model_dir={tmp_path}/run']
    finished = launch.cluster(['--workers=2', '--noevaluator'], *flags, cwd=tmp_path)
    assert finished.output.count('WARNING: all 2 tasks train on the same examples') == 1
