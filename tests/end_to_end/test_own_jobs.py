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
        launch.cluster(['--workers=2'], *flags, cwd=JOBS)
    last = launch.metrics(model_dir)[-1]
    assert last['step'] == 400
    assert last['accuracy'] > 0.9
    assert list((model_dir / 'export' / 'final').iterdir())
