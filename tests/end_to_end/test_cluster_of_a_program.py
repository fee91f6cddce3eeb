"""`cluster --program`: a real program of tf.estimator.train_and_evaluate with two workers, of which one is killed."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
BOUND_SECS = 240
PROGRAM = """
import json, os, signal, sys
import tensorflow as tf

task = json.loads(os.environ['TF_CONFIG'])['task']


class KilledOnce(tf.estimator.SessionRunHook):
    def after_run(self, context, values):
        if task['index'] == 1 and os.environ['ESTIMATOR_TRAINER_GENERATION'].startswith('1-'):
            os.kill(os.getpid(), signal.SIGKILL)


def data():
    return tf.data.Dataset.from_tensors(({'x': [[1.0], [2.0]]}, [[3.0], [5.0]])).repeat()


config = tf.estimator.RunConfig(sys.argv[1], train_distribute=tf.distribute.MultiWorkerMirroredStrategy())
column = tf.feature_column.numeric_column('x')
tf.estimator.train_and_evaluate(
    tf.estimator.LinearRegressor([column], config=config),
    tf.estimator.TrainSpec(data, max_steps=20, hooks=[KilledOnce()]),
    tf.estimator.EvalSpec(data, steps=1),
)
"""


@pytest.mark.slow
def test_a_program_is_restarted_and_ends(tmp_path):
    (tmp_path / 'my.py').write_text(PROGRAM)
    argv = ['cluster', '--program=my.py', '--workers=2', '--noevaluator', '--', 'model']
    popen = subprocess.Popen(
        [sys.executable, '-m', 'estimator_trainer', *argv],
        cwd=tmp_path,
        env={**os.environ, 'PYTHONPATH': str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = popen.communicate(timeout=BOUND_SECS)
    finally:
        if popen.poll() is None:
            os.killpg(popen.pid, signal.SIGKILL)
            popen.communicate()
    assert popen.returncode == 0, output
    assert "from the program's own last checkpoint: worker:1, SIGKILL" in output
    assert re.search('model.ckpt-20"', (tmp_path / 'model' / 'checkpoint').read_text())
    attempts = json.loads((tmp_path / 'my-cluster' / 'report.json').read_text())['attempts']
    assert [attempt['why'] for attempt in attempts] == ['failed', 'done']
