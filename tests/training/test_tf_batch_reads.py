"""training.batch_reads: who reads from the iterator of a step, and when."""

from unittest import mock

import pytest
import tensorflow as tf

from estimator_trainer.training import batch_reads, session_hook
from tests import fakes

v1 = tf.compat.v1


def batches():
    return v1.data.make_initializable_iterator(tf.data.Dataset.range(4))


def test_all_that_is_read_counts_in_each_session():
    with tf.Graph().as_default():
        iterator = batches()
        loss = iterator.get_next() * 2
        reads = batch_reads.count_reads([loss.op])
        for _ in range(2):
            with v1.Session() as session:
                session.run(iterator.initializer)
                assert reads.number(session) == 0
                assert [session.run(loss) for _ in range(3)] == [0, 2, 4] and reads.number(session) == 3


def test_a_batch_that_does_not_come_counts():
    with tf.Graph().as_default(), v1.Session() as session:
        iterator = batches()
        loss = iterator.get_next() * 2
        reads = batch_reads.count_reads([loss.op])
        session.run(iterator.initializer)
        for _ in range(4):
            session.run(loss)
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(loss)
        assert reads.number(session) == 5


def test_none_or_two_iterators_or_one_in_a_condition_of_version_1_are_not_counted():
    with tf.Graph().as_default():
        assert batch_reads.count_reads([tf.constant(1).op]) is None
        assert batch_reads.count_reads([(batches().get_next() + batches().get_next()).op]) is None
        v1.disable_control_flow_v2()
        try:
            read = v1.cond(v1.placeholder(tf.bool, []), batches().get_next, lambda: tf.constant(1, tf.int64))
        finally:
            v1.enable_control_flow_v2()
        assert batch_reads.count_reads([read.op]) is None


@pytest.mark.parametrize(
    'asked, trained, in_call, beside',
    [
        (5, 5, False, 0),
        (6, 5, False, 1),  # a hook has read one
        (6, 5, True, 0),  # the call has failed: its batch is read again
        (5, 5, True, 0),  # a hook has failed before the batch was asked for
    ],
)
def test_batches_beside_those_that_were_trained(asked, trained, in_call, beside):
    reads = mock.Mock(**{'number.return_value': asked})
    hook = session_hook.SessionHook(fakes.Setup(loop=mock.Mock(batches=trained)), None, None, reads=reads)
    if in_call:
        with pytest.raises(AttributeError):  # there is no graph to fetch from
            hook.before_run(None)
    assert hook.batches_beside(None) == beside
