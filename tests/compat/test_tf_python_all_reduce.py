"""compat.patches.python_all_reduce: which all-reduces may wait in Python code."""

import tensorflow as tf

from estimator_trainer.compat.patches import python_all_reduce

v1 = tf.compat.v1


def in_memory(tensor, of_several=False) -> bool:
    return python_all_reduce._can_wait_in_python(tensor, of_several, has_turns=True)


def test_in_a_graph_the_first_two_large_ones_and_the_loss():
    with tf.Graph().as_default():
        assert not in_memory(tf.zeros([20]))
        with python_all_reduce.of_each_step():
            assert in_memory(tf.zeros([20]))
        assert in_memory(tf.zeros([20]), of_several=True)
        assert [in_memory(tf.zeros([20_000])) for _ in range(2)] == [True, False]


def test_within_the_control_flow_of_a_graph_none():
    found = []

    def body(number):
        found.append(in_memory(tf.zeros([20_000])))
        return number + 1

    with tf.Graph().as_default():
        control_flow = v1.control_flow_v2_enabled()
        v1.disable_control_flow_v2()
        try:
            v1.while_loop(lambda number: number < 3, body, [tf.constant(0)])
        finally:
            if control_flow:
                v1.enable_control_flow_v2()
    assert found == [False]


def test_in_functions_all_but_those_of_xla():
    found = {}

    @tf.function
    def plain():
        found['plain'] = [in_memory(tf.zeros([2])) for _ in range(4)]

    @tf.function(jit_compile=True)
    def compiled():
        found['compiled'] = in_memory(tf.zeros([2]))

    plain(), compiled()
    assert found == {'plain': [True] * 4, 'compiled': False}


def test_only_floats_of_known_shape():
    assert in_memory(tf.zeros([3, 4])) and not in_memory(tf.zeros([3], tf.int32))
    with tf.Graph().as_default():
        assert not in_memory(v1.placeholder(tf.float32, [None, 2000]))


def test_in_conditions_of_a_session_none():
    """They could not read the variable by which functions take turns; TensorFlow's own operation needs no turns."""
    found = []

    def counted():
        found.append(in_memory(tf.zeros([20_000])))
        return tf.constant(1)

    with tf.Graph().as_default():
        v1.enable_control_flow_v2()
        tf.cond(v1.placeholder(tf.bool, []), counted, lambda: tf.constant(0))
    assert found == [False]
