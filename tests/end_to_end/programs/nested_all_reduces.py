"""A worker whose step adds up in functions within functions, conditions and loops. Prints the sum, how many all-reduces
it made, and how many of them waited at once."""

import os
import time

from estimator_trainer import compat

compat.bring_up()

import tensorflow as tf  # noqa: E402

import tf_config  # noqa: E402
from estimator_trainer.compat.patches import coordination_service  # noqa: E402
from estimator_trainer.this_process import shared_memory  # noqa: E402
from estimator_trainer.training import coordination  # noqa: E402

STEPS, BOUND_SECS = 20, 60

tf.config.threading.set_inter_op_parallelism_threads(4)
given = tf_config.parse(os.environ['TF_CONFIG'])
cluster, task = given.cluster, given.task
with coordination_service.heartbeats_put_off():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
listener = shared_memory.Listener()
coordination.tell(f'address/{task.index}', listener.address)
coordination.wait_for_all('addresses', BOUND_SECS)
memory = listener.connect(task.index, [coordination.hear(f'address/{index}') for index in (0, 1)], BOUND_SECS)
add_up, at_once, made = memory.add_up, [0], []


def watched(key, array, holds_up):
    at_once[0] += 1
    made.append(at_once[0])
    time.sleep((len(made) * (task.index + 1) % 5) / 2000)  # each task has a pace of its own
    try:
        return add_up(key, array, holds_up)
    finally:
        at_once[0] -= 1


memory.add_up = watched
coordination.add_up_in(memory, [str(each) for each in cluster.tasks])


def part(number):
    @tf.function
    def add(x):
        def total():
            return strategy.reduce('sum', strategy.run(lambda: x * float(number)), axis=None)

        if number % 3 == 0:
            return total()
        if number % 3 == 1:
            return tf.cond(tf.reduce_sum(x) > -1, total, lambda: x)
        return tf.while_loop(lambda count, _: count < 2, lambda count, _: (count + 1, total()), [0, x])[1]

    return add


parts = [part(number) for number in range(8)]


@tf.function
def step(x):
    return tf.add_n([add(x) for add in parts])


for number in range(STEPS):
    found = step(tf.fill([100], float(number)))
print('sum', float(found[0]), 'made', len(made), 'at once', max(made), flush=True)
coordination.wait_for_all('end', BOUND_SECS)
