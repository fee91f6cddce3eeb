"""The statements with bodies: conditions, loops and functions, of both kinds of control flow."""

import tensorflow as tf

from tests.differential.generated.scope import SHAPE, statement, touched
from tests.differential.generated.statements import flow


def at_a_time(k, *blocks) -> int:
    """How many iterations of a loop with these bodies may run at a time."""
    return 1 if any(any(touched(block)) for block in blocks) else 1 + k % 3


def is_positive(x):
    return tf.reduce_sum(x) > 0


@statement(blocks=2)
def cond(scope, x, y, k, then, otherwise):
    with flow(k):
        return tf.cond(is_positive(x), lambda: scope.body(then, y), lambda: scope.body(otherwise, y))


@statement(blocks=1)
def when(scope, x, y, k, block):
    """As around an update."""
    with flow(k):
        return tf.cond(is_positive(x), lambda: scope.body(block, y), lambda: tf.identity(y))


@statement(blocks=2)
def case(scope, x, y, k, one, other):
    with flow(k):
        if k % 2:
            branch = tf.math.floormod(tf.cast(tf.reduce_sum(x) * 9.0, tf.int32), 3)
            branches = [lambda: scope.body(one, y), lambda: scope.body(other, y), lambda: tf.identity(y)]
            return tf.switch_case(branch, branches)
        pairs = [(x[0, 0] > 0.3, lambda: scope.body(one, y)), (x[0, 1] > 0, lambda: scope.body(other, y))]
        return tf.case(pairs, default=lambda: tf.identity(y))


@statement(blocks=1)
def loop(scope, x, y, k, block):
    """The number of iterations is a constant, or follows from the batch."""
    count = tf.constant(1 + k % 3)
    if k % 2:
        count += tf.cast(is_positive(x), tf.int32)

    def body(done, value):
        value = scope.body(block, value)
        with tf.control_dependencies([value]):
            return done + 1, value

    with flow(k):
        iterations = at_a_time(k, block)
        start = (tf.zeros_like(count), tf.identity(y))
        return tf.while_loop(lambda done, _: done < count, body, start, parallel_iterations=iterations)[1]


@statement(reads=['variable'], blocks=1)
def loop_by_variable(scope, x, y, k, block):
    variable = scope.variable(k)

    def goes_on(done, value):
        return tf.logical_and(done < 4, tf.reduce_sum(variable) + tf.cast(done, tf.float32) < 2.0)

    def body(done, value):
        value = scope.body(block, value)
        with tf.control_dependencies([value]):
            return done + 1, value

    with flow(k):
        start = (tf.cast(tf.reduce_sum(y) > 1e6, tf.int32), tf.identity(y))
        return tf.while_loop(goes_on, body, start, parallel_iterations=1)[1]


@statement(blocks=1)
def map_fn(scope, x, y, k, block):
    with flow(k):
        given = tf.stack([x, y, x + y])[: 2 + k % 2]
        mapped = tf.map_fn(lambda one: scope.body(block, one), given, parallel_iterations=at_a_time(k, block))
        return tf.reduce_mean(mapped, 0)


@statement(blocks=1)
def scan(scope, x, y, k, block):
    def body(before, one):
        return scope.body(block, (before + one) / 2.0)

    with flow(k):
        found = tf.scan(body, tf.stack([x, y, x]), parallel_iterations=at_a_time(k, block), reverse=bool(k % 2))
        return tf.reduce_mean(found, 0)


@statement(blocks=1)
def fold(scope, x, y, k, block):
    fold = [tf.foldl, tf.foldr][k % 2]
    with flow(k):
        return fold(
            lambda before, one: scope.body(block, (before + one) / 2.0),
            tf.stack([x, y]),
            initializer=tf.zeros(SHAPE) if k % 3 else None,
            parallel_iterations=at_a_time(k, block),
        )


@statement(blocks=1)
def array_in_loop(scope, x, y, k, block):
    def body(done, value, array):
        value = scope.body(block, value)
        with tf.control_dependencies([value]):
            return done + 1, value, array.write(done, value)

    with flow(k):
        array = tf.TensorArray(tf.float32, 3, element_shape=SHAPE)
        start = (tf.cast(tf.reduce_sum(x) > 1e6, tf.int32), tf.identity(y), array)
        array = tf.while_loop(lambda done, *_: done < 3, body, start, parallel_iterations=1)[2]
        return tf.reduce_mean(array.stack(), 0)


@statement(blocks=1)
def function(scope, x, y, k, block):
    """k chooses how often it is called, and whether the graph of its gradient is one of its own."""

    @tf.function(autograph=False)
    def called(x, y):
        return scope.body(block, x, y)

    value = called(x, y)
    if k % 3 == 2:
        with tf.control_dependencies([value]):
            value = called(value, x)
    return value
