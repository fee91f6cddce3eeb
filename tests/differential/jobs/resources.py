"""Tables, queues, random generators and iterators beside the data's."""

import numpy as np
import tensorflow as tf

from tests.differential import data
from tests.differential.building import dense, job_of, sgd
from tests.differential.case import add, case

v1 = tf.compat.v1
_OTHERS = np.random.RandomState(5).normal(size=[500, 4, 3]).astype(np.float32)


def other_iterator(most=500):
    iterator = v1.data.make_initializable_iterator(tf.data.Dataset.from_tensor_slices(_OTHERS[:most]))
    v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
    return iterator


def ids_of(x, below):
    return tf.cast(tf.abs(x[:, :, 0]) * 40.0, tf.int64) % below


def static_table(x):
    keys = tf.range(7, dtype=tf.int64)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, tf.cast(keys, tf.float32) / 7.0), -1.0)
    return dense(table.lookup(ids_of(x, 9)))


def mutable_table(x):
    """What a step inserts, the next one finds."""
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, -1.0)
    before = table.lookup(ids_of(x, 9))
    with tf.control_dependencies([before]):
        with tf.control_dependencies([table.insert(ids_of(x, 9)[0], x[0, :, 1])]):
            return dense(tf.identity(before))


def dense_table(x):
    table = tf.lookup.experimental.DenseHashTable(tf.int64, tf.float32, 0.5, -1, -2)
    with tf.control_dependencies([table.insert(ids_of(x, 9)[0], x[0, :, 1])]):
        return dense(x) + tf.reduce_sum(table.lookup(ids_of(x, 9)[1]))


def queue(x):
    """A batch goes in, another one comes out."""
    waiting = tf.queue.FIFOQueue(5, tf.float32, [data.BATCH, data.TIME, data.DEPTH])
    v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, waiting.enqueue(np.ones_like(data.X[0])))
    with tf.control_dependencies([waiting.enqueue(x)]):
        return dense(waiting.dequeue() + 0.1 * x)


def critical_section(x):
    total = v1.get_variable('total', [], initializer=v1.zeros_initializer(), trainable=False)
    section = tf.CriticalSection()
    return dense(x) + section.execute(lambda: tf.identity(total.assign_add(0.01 * tf.reduce_sum(x), read_value=True)))


def generator(x):
    return dense(x + tf.random.Generator.from_seed(5).normal(tf.shape(x)))


def stateless_random(x):
    step = v1.train.get_or_create_global_step()
    return dense(x + tf.random.stateless_normal(tf.shape(x), [7, step.read_value()]))


def dropout(x):
    return dense(tf.nn.dropout(x, 0.4))


def random_operations(x):
    shifted = x + tf.random.normal(tf.shape(x), seed=1) * tf.random.uniform(tf.shape(x))
    return dense(tf.random.shuffle(shifted[:, 1:3], seed=4))


def two_iterators(x):
    return dense(x[:, 0] + other_iterator().get_next())


def optional_of_iterator(x):
    optional = tf.data.experimental.get_next_as_optional(other_iterator())
    return dense(x[:, 0] + optional.get_value())


def single_element(x):
    return dense(tf.data.experimental.get_single_element(tf.data.Dataset.from_tensors(x).map(tf.tanh)))


def accumulator(x):
    """A conditional accumulator: the mean of two gradients."""
    of_batches = v1.ConditionalAccumulator(tf.float32, [data.BATCH, data.DEPTH])
    step = v1.train.get_or_create_global_step()
    with tf.control_dependencies([of_batches.apply_grad(x[:, 0], step), of_batches.apply_grad(x[:, 1], step)]):
        return dense(of_batches.take_grad(2))


def local_metric(x):
    """A metric of tf.compat.v1.metrics, whose update belongs to the step."""
    mean, update = v1.metrics.mean(x)
    v1.summary.scalar('mean', mean)
    return dense(x) + 0.1 * update


for net in (
    static_table,
    mutable_table,
    dense_table,
    queue,
    critical_section,
    generator,
    stateless_random,
    two_iterators,
    optional_of_iterator,
    single_element,
    accumulator,
    local_metric,
):
    lives_on = net in (static_table, stateless_random, single_element, critical_section, accumulator)
    add(
        __name__,
        net.__name__,
        lambda net=net: job_of(net),
        resumes=lives_on,
        replicas=lives_on and net is not accumulator,
        events=net is not local_metric,
        updates=net is critical_section,
    )
for net in (dropout, random_operations):
    add(__name__, net.__name__, lambda net=net: job_of(net), resumes=False, replicas=False)


@case(resumes=False, replicas=False, sample=True)
def iterator_that_no_step_reads():
    """Five batches, for a hook at the end."""

    class Validates(tf.estimator.SessionRunHook):
        def __init__(self, held):
            self._held = held

        def end(self, session):
            data.RECORD.calls.append(float(np.sum(session.run(self._held))))

    def hooks(loss, step):
        return [Validates(other_iterator(5).get_next())]

    return job_of(dense, hooks=hooks)


@case(replicas=False)
def iterator_that_nobody_starts():
    def net(x):
        v1.data.make_initializable_iterator(tf.data.Dataset.range(3)).get_next()
        return dense(x)

    return job_of(net)


@case(resumes=False, replicas=False)
def reads_two_batches():
    """Two updates in a step, each with a batch of its own."""

    def train(loss, step):
        iterator = other_iterator()
        first = v1.train.GradientDescentOptimizer(0.05).minimize(loss)
        with tf.control_dependencies([first]):
            other = iterator.get_next()
            kernel = v1.trainable_variables()[0]
            more = tf.reduce_mean(tf.square(other @ kernel[:3]))
            return v1.train.GradientDescentOptimizer(0.02).minimize(more, step)

    return job_of(dense, train=train)


@case()
def counts_in_python():
    """A Python function with a state of its own."""

    def train(loss, step):
        seen = []

        def count(value):
            seen.append(value)
            return np.float32(len(seen) % 3)

        scale = tf.numpy_function(count, [loss], tf.float32)
        scale.set_shape([])
        return sgd(loss * (1.0 + 0.0 * scale), step)

    return job_of(dense, train=train)
