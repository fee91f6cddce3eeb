"""Loops, conditions, functions and TensorArrays, of both kinds of control flow, nested."""

import contextlib

import numpy as np
import tensorflow as tf

from tests.differential.building import dense, job_of
from tests.differential.case import add, case

v1 = tf.compat.v1
_OF_V1 = 'belongs to a loop or a condition of TensorFlow 1'


@contextlib.contextmanager
def of_v1():
    v1.disable_control_flow_v2()
    try:
        yield
    finally:
        v1.enable_control_flow_v2()


def weights(name='weights', shape=(3, 3)):
    return v1.get_variable(name, shape)


def loop(x):
    kernel = weights()
    return dense(tf.while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, tf.tanh(x @ kernel)), (0, x))[1])


def loop_of_data(x):
    """As many iterations as the batch says."""
    kernel = weights()
    most = tf.cast(tf.reduce_sum(tf.abs(x)), tf.int32) % 4
    return dense(tf.while_loop(lambda n, x: n < most, lambda n, x: (n + 1, tf.tanh(x @ kernel)), (0, x))[1])


def loop_by_variable(x):
    limit = v1.get_variable('limit', [], initializer=v1.constant_initializer(2.0))
    return dense(tf.while_loop(lambda x: tf.reduce_sum(tf.abs(x)) > limit, lambda x: (x * 0.5,), (x,))[0])


def nested_loops(x):
    kernel = weights()

    def inner(x):
        return tf.while_loop(lambda n, x: n < 2, lambda n, x: (n + 1, tf.tanh(x @ kernel)), (0, x))[1]

    return dense(tf.while_loop(lambda n, x: n < 2, lambda n, x: (n + 1, inner(x)), (0, x))[1])


def condition_in_loop(x):
    one, other = weights('one'), weights('other')

    def body(n, x):
        return n + 1, tf.cond(tf.reduce_sum(x) > 0, lambda: tf.tanh(x @ one), lambda: tf.tanh(x @ other))

    return dense(tf.while_loop(lambda n, x: n < 3, body, (0, x))[1])


def loop_in_condition(x):
    return tf.cond(tf.reduce_sum(x) > 0, lambda: loop(x), lambda: dense(x, name='other'))


def conditions(x):
    one, other = weights('one'), weights('other')
    first = tf.case([(x[0, 0, 0] > 0.5, lambda: x @ one), (x[0, 0, 0] > -0.5, lambda: x @ other)], default=lambda: x)
    number = tf.cast(tf.abs(x[0, 0, 1]) * 10.0, tf.int32) % 3
    return dense(tf.switch_case(number, [lambda: first @ one, lambda: first @ other, lambda: first]))


def mapped(x):
    kernel = weights()
    return dense(tf.map_fn(lambda row: tf.tanh(row @ kernel), x))


def scanned(x):
    kernel = weights()
    return dense(tf.scan(lambda before, row: tf.tanh(before @ kernel + row), tf.transpose(x, [1, 0, 2]))[-1])


def folded(x):
    kernel = weights()
    rows = tf.transpose(x, [1, 0, 2])
    one = tf.foldl(lambda before, row: tf.tanh(before @ kernel + row), rows)
    return dense(one + tf.foldr(lambda before, row: tf.tanh(before @ kernel - row), rows))


def vectorized(x):
    kernel = weights()
    return dense(tf.vectorized_map(lambda row: tf.tanh(row @ kernel), x))


def array(x):
    rows = tf.TensorArray(tf.float32, 5).unstack(tf.transpose(x, [1, 0, 2]))
    return dense(tf.concat([rows.read(0), rows.read(4), rows.gather([1, 2])[0]], 1))


def array_in_loop(x):
    kernel, rows = weights(), tf.TensorArray(tf.float32, 5).unstack(tf.transpose(x, [1, 0, 2]))

    def body(n, found):
        return n + 1, found.write(n, tf.tanh(rows.read(n) @ kernel))

    return dense(tf.while_loop(lambda n, _: n < 5, body, (0, tf.TensorArray(tf.float32, 5)))[1].stack()[-1])


def function(x):
    kernel = weights()

    @tf.function
    def called(x):
        for _ in tf.range(2):
            if tf.reduce_sum(x) > 0:
                x = tf.tanh(x @ kernel)
        return x

    return dense(called(called(x)))


def nested_functions(x):
    kernel = weights()

    @tf.function
    def inner(x):
        return tf.tanh(x @ kernel)

    @tf.function
    def outer(x):
        return inner(x) + tf.map_fn(inner, x)

    return dense(outer(x))


def own_gradient(x):
    @tf.custom_gradient
    def clipped(x):
        return tf.tanh(x), lambda gradient: tf.clip_by_value(gradient, -0.01, 0.01)

    return dense(clipped(dense(x, 4, 'hidden')))


def gradient_of_input(x):
    """As a gradient penalty."""
    hidden = dense(x, 4, 'hidden', tf.tanh)
    penalty = tf.reduce_sum(tf.square(tf.gradients(hidden, x)[0]))
    return dense(hidden) + 0.1 * penalty


def chosen_table(x):
    """A condition that gives a handle."""
    keys = tf.range(3, dtype=tf.int64)
    one, other = (
        tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, tf.constant(values)), -1.0)
        for values in ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    )
    handle = tf.cond(
        tf.reduce_sum(x) > 0, lambda: tf.identity(one.resource_handle), lambda: tf.identity(other.resource_handle)
    )
    ids = tf.cast(tf.abs(x[:, :, 0]) * 10.0, tf.int64) % 3
    found = tf.raw_ops.LookupTableFindV2(table_handle=handle, keys=ids, default_value=-1.0)
    return dense(tf.ensure_shape(found, ids.shape))


def of_python(x):
    doubled = tf.numpy_function(lambda x: x * np.float32(2), [x], tf.float32)
    doubled.set_shape(x.shape)
    v1.summary.histogram('doubled', doubled)
    halved = tf.py_function(lambda x: tf.tanh(x) / 2.0, [doubled], tf.float32)
    halved.set_shape(x.shape)
    return dense(halved)


def asserted(x):
    with tf.control_dependencies(
        [tf.debugging.assert_less(x, 100.0), tf.print(tf.shape(x), output_stream='file:///dev/null')]
    ):
        return dense(tf.identity(x))


def placeholder_of_batch(x):
    return dense(v1.placeholder_with_default(x, x.shape))


def placeholder_of_constant(x):
    return dense(x * v1.placeholder_with_default(0.5, []))


OF_ONE_BATCH = (
    *(loop, loop_of_data, loop_by_variable, nested_loops, condition_in_loop, loop_in_condition, conditions, scanned),
    *(folded, vectorized, array, array_in_loop, function, nested_functions, own_gradient, gradient_of_input),
    *(chosen_table, of_python, asserted, placeholder_of_constant),
)
for net in OF_ONE_BATCH:
    add(__name__, net.__name__, lambda net=net: job_of(net))
for net in (mapped, placeholder_of_batch):
    add(__name__, net.__name__, lambda net=net: job_of(net), sample=True)


def in_v1(net):
    def of_first_control_flow(x):
        with of_v1():
            return net(x)

    return of_first_control_flow


def sgd_in_v1(loss, step):
    with of_v1():
        return v1.train.GradientDescentOptimizer(0.05).minimize(loss, step)


for net in (loop, nested_loops, condition_in_loop, mapped, conditions):
    name = f'{net.__name__}_of_v1'
    add(__name__, name, lambda net=net: job_of(in_v1(net), train=sgd_in_v1), single=_OF_V1, sample=net is loop)


@case()
def array_of_v1():
    """A TensorArray without a loop, and the one of its gradient."""
    return job_of(in_v1(array), train=sgd_in_v1)


@case(sample=True, updates=True)
def inner_loop_of_updates():
    """Five updates of a critic before each step."""

    def train(loss, step):
        critic = v1.get_variable('critic', [], initializer=v1.zeros_initializer(), trainable=False)

        def update(n):
            with tf.control_dependencies([critic.assign_add(0.1 * (loss - critic))]):
                return n + 1

        with tf.control_dependencies(tf.while_loop(lambda n: n < 5, update, [0], parallel_iterations=1)):
            return v1.train.GradientDescentOptimizer(0.05).minimize(loss + 0.0 * critic, step)

    return job_of(dense, train=train)


@case(replicas=False)  # TensorFlow cannot update variables of several replicas in a condition
def update_in_condition():
    def train(loss, step):
        def update():
            with tf.control_dependencies([v1.train.GradientDescentOptimizer(0.05).minimize(loss)]):
                return tf.constant(True)

        with tf.control_dependencies([tf.cond(loss > 1.0, update, lambda: tf.constant(False))]):
            return step.assign_add(1).op

    return job_of(dense, train=train)


@case()
def summary_in_the_step():
    """The step waits for its merged summary."""

    def train(loss, step):
        with tf.control_dependencies([v1.summary.merge_all()]):
            return v1.train.GradientDescentOptimizer(0.05).minimize(loss, step)

    return job_of(dense, train=train)


@case()
def train_op_is_a_loop():
    def train(loss, step):
        kernel = v1.trainable_variables()[0]

        def update(n):
            with tf.control_dependencies([kernel.assign_sub(0.001 * tf.ones_like(kernel) * tf.tanh(loss))]):
                return n + 1

        with tf.control_dependencies([step.assign_add(1)]):
            return tf.while_loop(lambda n: n < 3, update, [0], parallel_iterations=1)[0]

    return job_of(dense, train=train)


@case(sample=True, updates=True)
def function_after_an_update():
    """It reads what has been updated, but only its argument says that it comes later."""

    def net(x):
        scale = v1.get_variable('scale', [], initializer=v1.ones_initializer(), trainable=False)
        with tf.control_dependencies([scale.assign(tf.reduce_mean(tf.linalg.svd(x, compute_uv=False)))]):
            x = tf.identity(x)
        return dense(tf.function(lambda x: x * scale)(x))

    return job_of(net)
