"""training.step_part: which operations of a step stay outside the loop."""

import pytest
import tensorflow as tf

from estimator_trainer.training import step_part

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
