"""training.step_part: which operations of a step stay outside the loop."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.training import step_loop, step_part

v1 = tf.compat.v1


@pytest.mark.parametrize('waits', [False, True])
def test_a_placeholder_that_waits_for_the_step_is_a_part_of_it(waits):
    with tf.Graph().as_default() as graph:
        seen, default = v1.get_variable('seen', initializer=0.0, use_resource=True), tf.constant(0.5)
        with tf.control_dependencies([seen.assign_add(1.0)] if waits else []):
            rate = v1.placeholder_with_default(default, [])
        loss = rate * seen.read_value()
        part = step_part.Part(graph, [loss.op])
    assert (rate.op in part.ops, rate.op in part.borders) == (waits, not waits)
    assert {'AssignAddVariableOp'} & {op.type for op in part.ops} == ({'AssignAddVariableOp'} if waits else set())


def test_a_large_constant_is_not_copied():
    with tf.Graph().as_default() as graph:
        frozen = tf.constant(np.ones([2**14, 2**10 + 1], np.float32), name='frozen')
        weight = v1.get_variable('weight', [2**10 + 1])
        loss = tf.reduce_sum(tf.gather(frozen, [3, 2**14 - 1]) * weight)
        train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        before = graph.as_graph_def().ByteSize()
        loop = step_loop.make(train_op, loss, None)
        assert graph.as_graph_def().ByteSize() < before + 2**20
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            first = session.run(weight)
            session.run(loop.done, {loop.most: 5})
            np.testing.assert_allclose(session.run(weight), first - 1.0, rtol=1e-5)
