"""What a task does before TensorFlow is imported, in clusters of 10, 100, 1,000 and 5,000 made-up tasks.

    python benchmarks/many_tasks.py [rounds]

Every task reads the addresses of all the others, so its work cannot grow more slowly than the number of tasks.
It must not grow faster either. For each way to describe a cluster this prints the best CPU time of one task, which
a busy machine disturbs least, and that time divided by the number of tasks. It exits 0 if the time for each entry
in clusters of 5,000 tasks is at most MOST_GROWTH times that in clusters of 100. No name is looked up and no port is
opened.
"""

import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tf_config  # noqa: E402
from estimator_trainer.config import trainer_config  # noqa: E402
from estimator_trainer.errors import UsageError  # noqa: E402
from estimator_trainer.training import messages  # noqa: E402
from estimator_trainer.training import plan as planning  # noqa: E402
from tf_config import addresses  # noqa: E402
from tf_config.resolvers import slurm  # noqa: E402

SIZES = (10, 100, 1000, 5000)
MOST_GROWTH = 3  # of the time for each entry; caches of the processor cost some
_FLAGS = ('--model_dir=unused', '--max_steps=1')


def main(rounds: int) -> int:
    print(f'{"one task of":34}' + ''.join(f'{size:>20,}' for size in SIZES))
    linear = True
    for name, prepare in CASES.items():
        times = {size: _best(prepare(size), rounds) for size in SIZES}
        cells = (f'{1e3 * secs:9.2f} ms {1e6 * secs / size:5.1f} us' for size, secs in times.items())
        growth = times[5000] / 5000 / (times[100] / 100)
        linear &= growth <= MOST_GROWTH
        print(f'{name:34}' + ''.join(f'{cell:>20}' for cell in cells) + f'   x {growth:.1f}', flush=True)
    print('us: for each task of the cluster; x: those of 5,000 tasks divided by those of 100')
    return 0 if linear else 1


def _best(work, rounds) -> float:
    """The shortest time of at least `rounds` and 0.1 s, in seconds; of a single round where that takes long."""
    times = []
    while len(times) < rounds or sum(times) < 0.1:
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
        if times[-1] > 2:
            break
    return min(times)


def _document(cluster, role, index) -> str:
    return json.dumps({'cluster': cluster, 'task': {'type': role, 'index': index}})


def _workers(size, address) -> str:
    """TF_CONFIG of the last worker of a cluster with an evaluator."""
    made = [address(number) for number in range(size)]
    return _document({'worker': made[1:], 'evaluator': made[:1]}, 'worker', size - 2)


def _hosts(number) -> str:
    return f'trainer-{number}.trainers.svc:2222'


def _one_host(number) -> str:
    return f'localhost:{2222 + number}'


def _parameter_servers(size) -> str:
    """TF_CONFIG of the last parameter server; one task of ten is one."""
    made = [_hosts(number) for number in range(size)]
    servers = max(1, size // 10)
    return _document({'chief': made[:1], 'worker': made[1:-servers], 'ps': made[-servers:]}, 'ps', servers - 1)


def _task(environ, *flags):
    """All that the trainer does with a cluster, from the environment to what TensorFlow is given."""
    config = trainer_config.parse(['trainer', *_FLAGS, *flags])

    def work():
        plan = planning.make(config, environ)
        addresses.public_addresses(plan.cluster)
        messages.describe(plan)
        plan.watched_peers()
        assert plan.global_batch_size and plan.num_tasks and plan.training_index is not None
        return tf_config.for_tensorflow(plan.cluster, plan.task, plan.strategy)

    return work


def _of_a_chief(size):
    made = [_hosts(number) for number in range(size)]
    return _task({'TF_CONFIG': _document({'chief': made[:1], 'worker': made[1:]}, 'chief', 0)})


def _refused(size):
    """Every address lacks its port, and every one is mended for the corrected form."""
    made = ['localhost' for _ in range(size)]

    def work():
        try:
            tf_config.parse(_document({'worker': made}, 'worker', 0))
        except tf_config.TfConfigError as error:
            return str(error)
        raise AssertionError('it is not refused')

    return work


def _refused_by_the_trainer(size):
    made = [f'{_hosts(0)}' for _ in range(size)]
    work = _task({'TF_CONFIG': _document({'worker': made}, 'worker', 0)})

    def refused():
        try:
            work()
        except UsageError as error:
            return str(error)
        raise AssertionError('it is not refused')

    return refused


def _slurm(size):
    """A step with two tasks on each node, whose names all resolve."""
    nodes = size // 2
    environ = {
        'SLURM_JOB_ID': '7',
        'SLURM_STEP_ID': '0',
        'SLURM_PROCID': str(size - 1),
        'SLURM_STEP_NODELIST': f'n[1-{nodes}]',
        'SLURM_STEP_TASKS_PER_NODE': f'2(x{nodes})',
        'SLURM_STEP_NUM_TASKS': str(size),
    }
    layout = tf_config.read_layout()
    assert slurm.is_step(environ)
    return lambda: tf_config.resolve(environ, layout, look_up=lambda names: {name: (name, name) for name in names})


def _local_gang(size):
    """What the supervisor makes for all tasks of a cluster, TF_CONFIG of each left out: its text is of all."""

    def work():
        cluster = tf_config.make(size, 0, True, (_one_host(number) for number in range(size + 1)))
        return [(str(task), cluster.address(task)) for task in cluster.tasks]

    return work


CASES = {
    'read and judge, a host each': lambda size: lambda text=_workers(size, _hosts): tf_config.parse(text),
    'trainer: worker, a host each': lambda size: _task({'TF_CONFIG': _workers(size, _hosts)}),
    'trainer: worker, all on one host': lambda size: _task({'TF_CONFIG': _workers(size, _one_host)}),
    'trainer: chief': _of_a_chief,
    'trainer: parameter server': lambda size: _task({'TF_CONFIG': _parameter_servers(size)}),
    'trainer: --hosts, a host each': lambda size: _task(
        {}, f'--hosts={",".join(f"h{number}" for number in range(size))}', f'--rank={size - 1}'
    ),
    'trainer: --hosts, all on one': lambda size: _task({}, f'--hosts={",".join(["h"] * size)}', f'--rank={size - 1}'),
    'Slurm: two tasks on each node': _slurm,
    'refused: no address has a port': _refused,
    'refused: all have one address': _refused_by_the_trainer,
    'supervisor: addresses of all': _local_gang,
}

if __name__ == '__main__':
    sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 5))
