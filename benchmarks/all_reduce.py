"""How long two ranks on this machine take to add up an array: Horovod's allreduce without Horovod, beside TensorFlow's.

    python benchmarks/all_reduce.py [rounds]

For each size this prints the median of the rounds' times of one sum, for `hvd.allreduce` of
`estimator_trainer.compat.horovod`, and for a ring of TensorFlow (`CollectiveReduceV2`, as MultiWorkerMirroredStrategy
makes it). Both run in the same two processes and take turns: A B, A B, … First the ranks exchange arrays in shared
memory, as they do on one machine; then two new processes do so over TCP, as they do on several machines.
`python -m estimator_trainer cluster` starts the processes, each with a core of its own. The sums are checked.
"""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

_ROOT = str(pathlib.Path(__file__).resolve().parents[1])
sys.path.insert(0, _ROOT)

SIZES = {'1.4 MB': (350_000, 30), '100 MB': (25_000_000, 5)}  # float32 numbers; how many sums are a turn
TRANSPORTS = ('memory', 'network')
_RANK = '--rank'  # this process is one of the two
_TIMEOUT_SECS = 900  # for one pair of processes


def main(rounds: int) -> int:
    return max(_started(transport, rounds) for transport in TRANSPORTS)


def _started(transport, rounds) -> int:
    """The exit code of a cluster of two processes, whose first one prints."""
    env = {**os.environ, 'PYTHONPATH': _ROOT, 'TF_CPP_MIN_LOG_LEVEL': '3', 'CUDA_VISIBLE_DEVICES': ''}
    with tempfile.TemporaryDirectory() as logs:
        command = [sys.executable, '-m', 'estimator_trainer', 'cluster', f'--program={__file__}', '--workers=2']
        command += ['--noevaluator', '--max_restarts=0', f'--log_dir={logs}', '--', _RANK, transport, str(rounds)]
        done = subprocess.run(command, env=env, timeout=_TIMEOUT_SECS, stdout=subprocess.PIPE, text=True)
    for line in done.stdout.splitlines():
        task, _, text = line.partition('] ')
        if task == '[worker:0' and text.startswith('|'):
            print(text, flush=True)
    return done.returncode


def measure_as_rank(transport: str, rounds: int) -> None:
    """What each of the two processes does."""
    cluster = os.environ['TF_CONFIG']
    import estimator_trainer.compat.horovod  # noqa: F401, takes TF_CONFIG
    from estimator_trainer.this_process import shared_memory

    if transport == 'network':
        shared_memory.place = lambda: None
    import horovod.tensorflow as hvd

    hvd.init()
    os.environ['TF_CONFIG'] = cluster  # the ranks have found each other: now the strategy may have the addresses
    import tensorflow as tf

    ring = _ring(tf)
    ways = {
        f'hvd.allreduce, {transport}': tf.function(lambda given: hvd.allreduce(given, op=hvd.Sum)),
        "TensorFlow's ring": ring,
    }
    for size, (numbers, repeats) in SIZES.items():
        given = tf.random.stateless_normal([numbers], [1, hvd.rank()])
        expected = sum(tf.random.stateless_normal([numbers], [1, rank]) for rank in range(hvd.size()))
        times = {name: [] for name in ways}
        for turn in range(rounds + 1):
            for name, add_up in ways.items():
                found, secs = _timed(add_up, given, repeats)
                tf.debugging.assert_near(found, expected)
                if turn:  # the first one makes the graph and the memory
                    times[name].append(secs)
        if hvd.rank() == 0:
            _print(size, times)


def _ring(tf):
    """tensor -> the sum of those of both processes, with TensorFlow's ring."""
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING
    )
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)

    def in_replica(given):
        given = tf.identity(given)  # on this replica's device
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, given, options)

    return tf.function(lambda given: strategy.run(in_replica, [given]))


def _timed(add_up, given, repeats):
    """(the sum, the median of the seconds of one). Each waits for the other process."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        found = add_up(given)
        found[0].numpy()  # it is there
        times.append(time.perf_counter() - began)
    return found, statistics.median(times)


def _print(size, times) -> None:
    base = list(times.values())[-1]
    for name, found in times.items():
        ratios = [mine / other for mine, other in zip(found, base)]
        print(
            f'| {size} | {name} | {1e3 * statistics.median(found):.1f} ms | {1e3 * min(found):.1f} to '
            f'{1e3 * max(found):.1f} ms | {statistics.median(found) / statistics.median(base):.2f} | '
            f'{min(ratios):.2f} to {max(ratios):.2f} |',
            flush=True,
        )


if __name__ == '__main__':
    if sys.argv[1:2] == [_RANK]:
        measure_as_rank(sys.argv[2], int(sys.argv[3]))
    else:
        sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 5))
