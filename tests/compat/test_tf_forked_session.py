"""A child that a hook forks by hand and that leaves by an exception ends, and its parent trains on."""

import os
import subprocess
import sys

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
