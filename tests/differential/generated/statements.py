"""The statements without a body."""

import contextlib

import numpy as np
import tensorflow as tf

from tests.differential.generated.scope import SHAPE, VARIABLES, statement

v1 = tf.compat.v1


@contextlib.contextmanager
def flow(k):
    """Control flow of TensorFlow 1 for one k of six, and within such a body. A function has that of TensorFlow 2."""
    if k % 6 != 5 or not v1.control_flow_v2_enabled():
        yield
        return
    v1.disable_control_flow_v2()
    try:
        yield
    finally:
        v1.enable_control_flow_v2()


def after(ops, value):
    with tf.control_dependencies(ops):
        return tf.identity(value)


def ids(x, below):
    """Whole numbers that follow from x."""
    return tf.math.floormod(tf.cast(tf.reshape(x, [-1]) * 37.0, tf.int64), below)


# -- arithmetic


@statement()
def unary(scope, x, y, k):
    functions = [tf.tanh, tf.sin, tf.nn.relu, tf.nn.softmax, tf.transpose, tf.negative, tf.stop_gradient, tf.identity]
    functions += [tf.sigmoid, lambda x: tf.cumsum(x, 1) / 2.0, lambda x: tf.reverse(x, [1]), lambda x: tf.sort(x, 1)]
    return functions[k % len(functions)](x)


@statement()
def binary(scope, x, y, k):
    functions = [tf.add, tf.subtract, tf.multiply, tf.matmul, tf.maximum, tf.math.atan2, lambda x, y: (x + y) / 2.0]
    return tf.tanh(functions[k % len(functions)](x, y))


@statement()
def where(scope, x, y, k):
    return tf.where(x > y, x, 0.5 * y)


@statement()
def joined(scope, x, y, k):
    return tf.reduce_mean(tf.reshape(tf.concat([x, y], 1), [2, 2, 2]), k % 2)


@statement()
def einsum(scope, x, y, k):
    return tf.tanh(tf.einsum('ij,kj->ik', x, y))


@statement()
def constant(scope, x, y, k):
    return tf.constant([[1.0, -2.0], [0.5, k]]) / 3.0


@statement()
def of_other_type(scope, x, y, k):
    between = [tf.bfloat16, tf.float16, tf.float64, tf.int32, tf.string][k % 5]
    if between == tf.string:
        return tf.strings.to_number(tf.strings.as_string(x))
    return tf.tanh(tf.cast(tf.cast(x * 3.0, between), tf.float32))


@statement()
def of_unknown_shape(scope, x, y, k):
    chosen = tf.boolean_mask(x, y > 0)
    return tf.fill(SHAPE, tf.tanh(tf.reduce_sum(chosen)))


@statement()
def sparse(scope, x, y, k):
    return tf.tanh(tf.sparse.sparse_dense_matmul(tf.sparse.from_dense(tf.nn.relu(x)), y))


@statement()
def ragged(scope, x, y, k):
    rows = tf.RaggedTensor.from_tensor(x).with_values(tf.reshape(x + y, [-1]) / 2.0)
    return tf.reshape(rows.to_tensor(), SHAPE)


@statement()
def partitioned(scope, x, y, k):
    parts = tf.dynamic_partition(x, tf.cast(tf.reduce_sum(y, 1) > 0, tf.int32), 2)
    return tf.reshape(tf.concat(parts, 0), SHAPE)


@statement()
def hashed_string(scope, x, y, k):
    hashes = tf.strings.to_hash_bucket_fast(tf.strings.as_string(x, precision=3), 11)
    return tf.cast(hashes, tf.float32) / 11.0 * y


@statement()
def inner_gradient(scope, x, y, k):
    return tf.gradients(tf.reduce_sum(tf.tanh(x * y)), x)[0]


@statement()
def tensor_array(scope, x, y, k):
    with flow(k):
        array = tf.TensorArray(tf.float32, 2, element_shape=SHAPE).write(0, x).write(1, y)
        return tf.reduce_mean(array.stack(), 0)


@statement()
def asserted(scope, x, y, k):
    return after([tf.debugging.assert_less(x, 1e6)], y)


@statement(writes=['~python'])
def python(scope, x, y, k):
    if k % 2:
        value = tf.py_function(lambda x: tf.tanh(x), [x], tf.float32)
    else:
        value = tf.numpy_function(lambda x: x * np.float32(0.5), [x], tf.float32)
    if k % 3:
        value.set_shape(SHAPE)
        return value
    return tf.reshape(value, SHAPE)


@statement()
def single_element(scope, x, y, k):
    data = tf.data.Dataset.from_tensors(x).map(lambda x: x * 0.5)
    return tf.stop_gradient(tf.data.experimental.get_single_element(data))


@statement()
def summary(scope, x, y, k):
    return after([v1.summary.scalar('of_step', tf.reduce_sum(x))], y)


# -- what is random


@statement(writes=['~random'])
def random(scope, x, y, k):
    if k % 3 == 0:
        return x + tf.random.normal(SHAPE, seed=k)
    if k % 3 == 1:
        return tf.nn.dropout(x, 0.5, seed=k)
    return x * tf.random.uniform(SHAPE, seed=k)


@statement(reads=['step'])
def stateless(scope, x, y, k):
    return x + tf.random.stateless_normal(SHAPE, [k, scope.shared.step.read_value()])


@statement(writes=['generator'])
def generator(scope, x, y, k):
    return x + scope.shared.generator.normal(SHAPE)


# -- variables


@statement(reads=['variable'])
def read(scope, x, y, k):
    variable = scope.variable(k)
    return [lambda: x + variable, variable.read_value, lambda: tf.tanh(x @ variable)][k % 2 + k // VARIABLES % 2]()


@statement(reads=['variable'])
def dense(scope, x, y, k):
    return tf.tanh(x @ scope.variable(k) + y)


@statement(reads=['variable'])
def conv(scope, x, y, k):
    return tf.reshape(tf.nn.conv2d(x[None, :, :, None], scope.variable(k)[:, :, None, None], 1, 'SAME'), SHAPE) / 4.0


@statement(reads=['variable'])
def embedding(scope, x, y, k):
    return tf.reduce_mean(tf.reshape(tf.nn.embedding_lookup(scope.variable(k), ids(x, 2)), [2, 2, 2]), 1)


@statement(writes=['variable'])
def assign(scope, x, y, k):
    variable = scope.variable(k)
    ways = [
        lambda: variable.assign(0.9 * variable + 0.1 * x),
        lambda: variable.assign_add(0.1 * x),
        lambda: variable.assign_sub(0.1 * x),
        lambda: variable.scatter_nd_add([[k % 2]], 0.1 * x[:1]),
    ]
    return after([ways[k // VARIABLES % len(ways)]()], y)


@statement(writes=['variable'])
def assigned(scope, x, y, k):
    return scope.variable(k).assign_add(0.1 * x, read_value=True) + y


@statement(reads=['variable2', 'variable3'])
def chosen_variable(scope, x, y, k):
    if scope.is_inner:  # TensorFlow has no gradient of such a loop
        return y
    *_, one, other = scope.shared.variables
    handle = tf.cond(tf.reduce_sum(x) > 0, lambda: tf.identity(one.handle), lambda: tf.identity(other.handle))
    return y + tf.stop_gradient(tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32))


@statement(writes=['variable', 'critical'])
def critical(scope, x, y, k):
    variable = scope.variable(k)
    return y + scope.shared.critical.execute(lambda: tf.identity(variable.assign_add(0.1 * x, read_value=True)))


@statement(writes=['scratch'])
def scratch(scope, x, y, k):
    handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=SHAPE, shared_name='scratch')
    if k % 2:
        return after([tf.raw_ops.AssignVariableOp(resource=handle, value=x)], y)
    with tf.control_dependencies([tf.raw_ops.AssignVariableOp(resource=handle, value=x)]):
        return y + tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)


# -- other resources, and what is fed


@statement(writes=['other'])
def of_other_iterator(scope, x, y, k):
    if k % 3 == 2:
        optional = tf.data.experimental.get_next_as_optional(scope.shared.other)
        return y + tf.stop_gradient(optional.get_value()[1])
    return x + tf.stop_gradient(scope.shared.other.get_next()[1])


@statement(reads=['table'])
def table(scope, x, y, k):
    return tf.reshape(scope.shared.table.lookup(ids(x, 7)), SHAPE)


@statement(writes=['mutable_table'])
def mutable_table(scope, x, y, k):
    table = scope.shared.mutable_table
    with tf.control_dependencies([table.insert(ids(x, 5)[:1], tf.reshape(y, [-1])[:1])]):
        return x + table.lookup(tf.constant([k % 5], tf.int64))


@statement(writes=['queue'])
def queue(scope, x, y, k):
    with tf.control_dependencies([scope.shared.queue.enqueue(x)]):
        return y + tf.stop_gradient(tf.reshape(scope.shared.queue.dequeue(), SHAPE))


@statement()
def fed(scope, x, y, k):
    default = [x, np.full(SHAPE, 0.5, np.float32)][k % 2]
    return tf.tanh(y + v1.placeholder_with_default(default, SHAPE))
