"""One process, two workers, two mirrored replicas and two workers with --sync_ps compute the same weights."""

import launch
import pytest

pytestmark = pytest.mark.slow

JOBS = {'mnist': ['--job=mnist'], 'fashion_mnist': ['--job=fashion_mnist', '--param=l2=0.001']}
COMMON = [
    '--dataset=mnist_5k',
    '--max_steps=20',
    '--deterministic',
    '--param=learning_rate=0.1',
    '--log_every_steps=1',
    '--export=none',
    '--seed=3',
]
TOLERANCE = 1e-5


@pytest.fixture(scope='module', params=list(JOBS))
def runs(request, tmp_path_factory, data_dir):
    """The model_dirs of the job: 1 x 64, and the same global batch as 2 x 32 in three ways."""
    folder = tmp_path_factory.mktemp(request.param)
    flags = [*COMMON, *JOBS[request.param], f'--data_dir={data_dir}']
    launch.trainer(*flags, '--batch_size=64', f'--model_dir={folder}/one')
    launch.trainer(
        *flags, '--batch_size=32', '--strategy=mirrored', '--num_replicas=2', f'--model_dir={folder}/mirrored'
    )
    launch.cluster(['--workers=2', '--noevaluator'], *flags, '--batch_size=32', f'--model_dir={folder}/workers')
    launch.cluster(
        ['--workers=2', '--ps=1', '--noevaluator'], *flags, '--sync_ps', '--batch_size=32', f'--model_dir={folder}/ps'
    )
    return folder


@pytest.mark.parametrize('other', ['mirrored', 'workers', 'ps'])
def test_weights(runs, other):
    one, two = launch.weights(runs / 'one'), launch.weights(runs / other)
    assert one.keys() == two.keys()
    largest = max(abs(value) for values in one.values() for value in values)
    difference = max(abs(a - b) for name in one for a, b in zip(one[name], two[name], strict=True))
    assert difference <= TOLERANCE * largest


@pytest.mark.parametrize('other', ['mirrored', 'workers'])
def test_reported_losses(runs, other):
    one, two = ([line['loss'] for line in launch.metrics(runs / name, 'train')] for name in ('one', other))
    assert len(one) == len(two) == 20
    assert one == pytest.approx(two, abs=TOLERANCE)
    assert one[-1] < one[0]


def test_evaluations(runs):
    one, *others = (launch.metrics(runs / name)[-1] for name in ('one', 'mirrored', 'workers', 'ps'))
    for other in others:
        assert one['loss'] == pytest.approx(other['loss'], abs=TOLERANCE)


def test_shared_memory_and_the_network_give_the_same_sums(tmp_path, data_dir):
    flags = [*COMMON, f'--data_dir={data_dir}', '--batch_size=32']
    for way in ('auto', 'network'):
        finished = launch.cluster(
            ['--workers=2', '--noevaluator'], *flags, f'--all_reduce={way}', f'--model_dir={tmp_path}/{way}'
        )
        assert ('add up gradients in shared memory' in finished.output) == (way == 'auto')
    assert launch.weights(tmp_path / 'auto') == launch.weights(tmp_path / 'network')


def test_sparse_gradients(tmp_path):
    flags = ['--job=tests.end_to_end.linear_job:job', '--max_steps=20', '--deterministic', '--eval_steps=1']
    launch.trainer(*flags, '--batch_size=64', f'--model_dir={tmp_path}/one')
    launch.cluster(['--workers=2', '--noevaluator'], *flags, '--batch_size=32', f'--model_dir={tmp_path}/two')
    one, two = launch.weights(tmp_path / 'one'), launch.weights(tmp_path / 'two')
    shared = one.keys() & two.keys()  # under a strategy upstream names the optimizer's accumulators otherwise
    assert {'linear/linear_model/value/weights', 'linear/linear_model/bias_weights'} <= shared
    for name in shared:
        assert one[name] == pytest.approx(two[name], abs=TOLERANCE), name
