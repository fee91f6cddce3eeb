"""What the peers share: their flags, the clock of their steps, Keras models and their batches, and starting the other
tasks of a cluster."""

import argparse
import atexit
import json
import os
import socket
import subprocess
import sys
import time

from benchmarks import data


def flags(description) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--steps', type=int, default=1000, help='steps to train')
    parser.add_argument('--warm_up', type=int, default=None, help='steps before the clock starts; a quarter of --steps')
    return parser


def parse(parser):
    args = parser.parse_args()
    args.warm_up = args.steps // 4 if args.warm_up is None else args.warm_up
    return args


class Clock:
    """Steps per second between the end of the warm-up and the last step.

    Attributes:
        warm_up: the step after which the clock starts.
    """

    def __init__(self, warm_up: int):
        self.warm_up = warm_up
        self._first = self._last = None

    def at(self, step: int) -> None:
        """`step` steps have been taken."""
        self._last = (step, time.perf_counter())
        if self._first is None and step >= self.warm_up:
            self.starts(step)

    def starts(self, step: int) -> None:
        """The warm-up is over, after `step` steps."""
        self._first = (step, time.perf_counter())

    def ended(self, step: int, when: float) -> None:
        """The last one was step `step`, at this time of time.perf_counter."""
        self._last = (step, when)

    def report(self) -> None:
        """Prints the line of JSON."""
        (first, began), (last, ended) = self._first, self._last
        tell(steps_per_sec=(last - first) / (ended - began))


def tell(**values) -> None:
    print(json.dumps(values), flush=True)


def step_hook(clock):
    """A hook that tells `clock` the global step; it asks for it at the end of the warm-up and at the end only."""
    import tensorflow as tf

    class Steps(tf.estimator.SessionRunHook):
        def begin(self):
            self._global_step, self._calls, self._ended = tf.compat.v1.train.get_global_step(), 0, None

        def after_run(self, run_context, run_values):
            self._calls += 1
            self._ended = time.perf_counter()
            if self._calls == clock.warm_up:
                clock.starts(int(run_context.session.run(self._global_step)))

        def end(self, session):
            clock.ended(int(session.run(self._global_step)), self._ended)

    return Steps()


def _cnn(keras):
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input([28, 28, 1]),
            layers.Rescaling(1 / 255),
            layers.Conv2D(32, 3, activation='relu'),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation='relu'),
            layers.Dense(data.CLASSES),
        ]
    )


def _small_dnn(keras):
    dense = keras.layers.Dense
    first, second = dense(16, activation='relu'), dense(16, activation='relu')
    return keras.Sequential([keras.Input([32]), first, second, dense(data.CLASSES)])


KERAS_MODELS = {'cnn': _cnn, 'small_dnn': _small_dnn}  # of a Keras of any version


def batches_of_keras(model):
    """Shuffled batches without end for one of KERAS_MODELS, a tf.data.Dataset of (examples, labels)."""
    import tensorflow as tf

    features, labels = data.SETS[model]()
    (examples,) = features.values()
    batches = tf.data.Dataset.from_tensor_slices((examples, labels))
    return batches.shuffle(10_000).repeat().batch(data.BATCHES[model]).prefetch(tf.data.AUTOTUNE)


def become_cluster(roles, pinned=False) -> int:
    """Starts this command once more for each task but the first one, which this process becomes.

    Call it before TensorFlow is imported. The others are killed when this process ends.

    Args:
        roles: of the tasks, such as ['chief', 'worker', 'ps'].
        pinned: each task has a core for itself.

    Returns:
        the number of this task.
    """
    if len(roles) == 1:
        return 0
    number = int(os.environ.get('NUMBER_OF_TASK', 0))
    if 'TF_CONFIG' not in os.environ:
        sockets = [socket.create_server(('localhost', 0)) for _ in roles]
        addresses = [f'localhost:{found.getsockname()[1]}' for found in sockets]
        for found in sockets:
            found.close()
        cluster = {role: [at for at, other in zip(addresses, roles) if other == role] for role in roles}
        for task, role in reversed(list(enumerate(roles))):
            index = roles[:task].count(role)
            os.environ['TF_CONFIG'] = json.dumps({'cluster': cluster, 'task': {'type': role, 'index': index}})
            os.environ['NUMBER_OF_TASK'] = str(task)
            if task:
                other = subprocess.Popen([sys.executable, *_own_argv()], stdout=sys.stderr)
                atexit.register(other.kill)
    if pinned:
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[number % len(cores)]})
    return number


def _own_argv():
    return ['-m', sys.modules['__main__'].__spec__.name, *sys.argv[1:]]


def resident_mib() -> float:
    with open('/proc/self/statm', encoding='utf-8') as file:
        return int(file.read().split()[1]) * os.sysconf('SC_PAGE_SIZE') / 2**20
