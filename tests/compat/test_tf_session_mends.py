"""compat.patches.session_mends: what an exception means to a session."""

import pytest
import tensorflow as tf

from estimator_trainer.compat.patches import session_mends

v1 = tf.compat.v1


def test_session_ends_are_installed_in_place_of_earlier_ones():
    """Several trainings of one process must not ask each other what an exception means."""
    session_class, asked = v1.train.MonitoredSession, []
    before = session_class.__exit__
    try:
        for number in range(3):
            session_mends.decide_ends(lambda error, number=number: asked.append(number), lambda error: False)
        with pytest.raises(RuntimeError), tf.Graph().as_default(), v1.train.MonitoredSession():
            raise RuntimeError('of the job')
    finally:
        session_class.__exit__ = before
    assert asked == [2]
