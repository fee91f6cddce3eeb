"""Two workers with --sync_ps compute the weights of one process; and what test_parity.py leaves out besides.

It compares the loops, and in each of them one process, two mirrored replicas and two workers.
"""

import launch
import pytest

pytestmark = pytest.mark.slow

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


def test_parameter_servers_in_step(tmp_path, data_dir):
    flags = [*COMMON, '--job=fashion_mnist', '--param=l2=0.001', f'--data_dir={data_dir}']
    launch.trainer(*flags, '--batch_size=64', f'--model_dir={tmp_path}/one')
    shape = ['--workers=2', '--ps=1', '--noevaluator']
    launch.cluster(shape, *flags, '--sync_ps', '--batch_size=32', f'--model_dir={tmp_path}/ps')
    one, two = launch.weights(tmp_path / 'one'), launch.weights(tmp_path / 'ps')
    assert one.keys() == two.keys()
    largest = max(abs(value) for values in one.values() for value in values)
    difference = max(abs(a - b) for name in one for a, b in zip(one[name], two[name], strict=True))
    assert difference <= TOLERANCE * largest
    evaluated, other = (launch.metrics(tmp_path / name)[-1] for name in ('one', 'ps'))
    assert evaluated['loss'] == pytest.approx(other['loss'], abs=TOLERANCE)


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
