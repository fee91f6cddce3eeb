"""compat.patches.session_mends: what an exception means to a session, and to one that a forked child has."""

import os
import subprocess
import sys

import pytest
import tensorflow as tf
from tensorflow.python.training import monitored_session

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


@pytest.mark.parametrize('kind', [tf.errors.AbortedError, tf.errors.UnavailableError])
def test_no_session_takes_the_place_of_one_that_has_failed(kind, monkeypatch):
    """Its input would begin anew, with the step of the last checkpoint."""
    upstream = (tf.errors.AbortedError, tf.errors.UnavailableError)
    monkeypatch.setattr(monitored_session, '_PREEMPTION_ERRORS', upstream)
    sessions = []

    class Fails(tf.estimator.SessionRunHook):
        def after_create_session(self, session, coord):
            sessions.append(session)

        def after_run(self, run_context, run_values):
            if len(sessions) == 1:
                raise kind(None, None, 'the store does not answer')

    def run_twice():
        with tf.Graph().as_default():
            one = tf.constant(1)
            with v1.train.MonitoredSession(hooks=[Fails()]) as session:
                session.run(one)
                session.run(one)

    run_twice()
    assert len(sessions) == 2  # upstream's
    del sessions[:]
    session_mends.raise_every_error()
    session_mends.raise_every_error()
    with pytest.raises(kind, match='does not answer'):
        run_twice()
    assert len(sessions) == 1


PROGRAM = """
import os
import sys
from estimator_trainer import compat
import tensorflow as tf
from estimator_trainer.compat.patches import session_mends

class Forks(tf.estimator.SessionRunHook):
    code = None

    def after_run(self, run_context, run_values):
        child = os.fork()
        if not child:
            raise RuntimeError('the child fails')
        Forks.code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        run_context.request_stop()

session_mends.end_forked_children()
session_mends.end_forked_children()
with tf.Graph().as_default():
    step = tf.compat.v1.train.create_global_step()
    grow = step.assign_add(1)
    with tf.compat.v1.train.MonitoredTrainingSession(hooks=[Forks()]) as session:
        session.run(grow)
print('code', Forks.code)
"""


def test_a_child_ends_where_the_session_would_be_closed(tmp_path):
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    done = subprocess.run([sys.executable, '-c', PROGRAM], cwd=root, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout.strip()) == (0, 'code 1'), done.stderr
    assert 'the child fails' in done.stderr
