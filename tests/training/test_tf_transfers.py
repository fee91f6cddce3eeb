"""training.transfers: the same numbers in fewer transfers, between two servers of this process."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.supervisor.processes import ports
from estimator_trainer.training import transfers

v1 = tf.compat.v1
HERE, THERE = '/job:worker/task:0', '/job:worker/task:1'


@pytest.fixture(scope='module')
def target():
    """Of sessions."""
    with ports.claim(2) as claimed:
        addresses = [f'localhost:{port}' for port in claimed.ports]
        running = [tf.distribute.Server({'worker': addresses}, 'worker', index) for index in (0, 1)]
        yield running[0].target


def step():
    """A step of training of dense variables and tables that are there -> what to fetch."""
    with tf.device(THERE):
        dense = [v1.get_variable(f'dense{n}', initializer=np.full([3, 2], n + 1.0, np.float32)) for n in range(6)]
        tables = [v1.get_variable(f'table{n}', initializer=np.full([9, 3], n + 1.0, np.float32)) for n in range(6)]
        large = v1.get_variable('large', initializer=np.ones([2**19], np.float32))
        words = [tf.constant(['a', 'bc']), tf.constant('def')]
    with tf.device(HERE):
        ids = v1.placeholder_with_default(np.array([1, 4, 4, 7]), [None])
        rows = tf.add_n([tf.nn.embedding_lookup(table, ids + n % 2) for n, table in enumerate(tables)])
        loss = tf.reduce_sum(tf.matmul(rows, tf.add_n(dense)) ** 2) + tf.reduce_sum(large)
        optimizer = v1.train.AdagradOptimizer(0.1)
        train = optimizer.apply_gradients(optimizer.compute_gradients(loss, [*dense, *tables]))
        with tf.control_dependencies([train]):
            after = [variable.read_value() for variable in (*dense, *tables)]
        return [loss, *after, words[0] + words[1]]


def transferred(fetches) -> set:
    """What goes from one task to the other: tensors and their destinations."""
    return {
        (tensor.ref(), transfers._task(op))
        for op in transfers._needed([tensor.op for tensor in fetches])
        for tensor in op.inputs
        if transfers._task(tensor.op) != transfers._task(op)
    }


def values(target, bundled):
    with tf.Graph().as_default():
        fetches = step()
        count = transfers.bundle(fetches) if bundled else 0
        with v1.Session(target) as session:
            session.run(v1.global_variables_initializer())
            results = [session.run(fetches) for _ in range(3)][-1]
        ways = transferred(fetches)
        large = [ref.deref() for ref, _ in ways if ref.deref().shape.num_elements() == 2**19]
        return results, count, len(ways), len(large)


def test_the_same_numbers_in_fewer_transfers(target):
    expected, _, before, _ = values(target, bundled=False)
    found, count, after, large = values(target, bundled=True)
    assert expected.pop().tolist() == found.pop().tolist()
    for one, other in zip(expected, found, strict=True):  # TensorFlow optimizes another graph
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert count > 30 and after <= before - count // 2
    assert large == 1  # alone


def test_what_waits_for_another_one_does_not_travel_with_it():
    with tf.Graph().as_default():
        with tf.device(HERE):
            first = tf.constant([1.0, 2.0]) + 1
        with tf.device(THERE):
            back = first * 2
        with tf.device(HERE):
            second = back + 1
        with tf.device(THERE):
            end = first + second
        assert transfers.bundle([end]) == 0


def test_a_graph_with_control_flow_of_tensorflow_1_is_left_alone():
    with tf.Graph().as_default():
        enabled = v1.control_flow_v2_enabled()
        v1.disable_control_flow_v2()
        try:
            with tf.device(HERE):
                numbers = [tf.constant(float(n)) for n in range(3)]
            with tf.device(THERE):
                total = tf.cond(numbers[0] > 1, lambda: numbers[1] + 1, lambda: numbers[2] + 2)
        finally:
            if enabled:
                v1.enable_control_flow_v2()
        assert transfers.bundle([total]) == 0
