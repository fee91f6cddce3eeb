"""What is read without TensorFlow is what TensorFlow has written; and the page of a real run."""

import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import tensorflow as tf

from estimator_trainer.tools.report.run_files import RunFiles, read_variables

ROOT = pathlib.Path(__file__).parents[3]
RUN = """
import sys
from estimator_trainer.__main__ import main
sys.argv[1:] = ['report', sys.argv[1]]
try:
    main()
finally:
    assert 'tensorflow' not in sys.modules
"""


def test_variables_of_a_partitioned_model(tmp_path):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.get_variable('table', [10, 4], partitioner=tf.compat.v1.fixed_size_partitioner(3))
        weight = tf.compat.v1.get_variable('kernel', [4, 2])
        step = tf.compat.v1.train.get_or_create_global_step()
        tf.compat.v1.train.AdamOptimizer().minimize(tf.reduce_sum(weight**2), step)
        tf.compat.v1.get_variable('half', [3], tf.bfloat16)
        session.run(tf.compat.v1.global_variables_initializer())
        prefix = tf.compat.v1.train.Saver().save(session, str(tmp_path / 'model.ckpt'), 0)
    table = read_variables(prefix)
    found = {each.variable.name: each for each in table.weights}
    assert {name: list(each.variable.shape) for name, each in found.items()} == {
        name: shape for name, shape in tf.train.list_variables(prefix) if name in ('table', 'kernel', 'half')
    }
    assert (found['table'].variable.slices, found['table'].variable.bytes) == (3, 160)
    assert (found['half'].variable.dtype, found['half'].variable.bytes) == ('bfloat16', 6)
    assert found['kernel'].slots == ('Adam', 'Adam_1') and found['kernel'].slot_bytes == 64
    assert table.parameters == 40 + 8 + 3


def test_variables_of_a_tree_of_objects(tmp_path):
    model = tf.train.Checkpoint(dense=tf.Variable(np.ones((2, 3), np.float32), name='dense/kernel'))
    table = read_variables(model.save(str(tmp_path / 'model.ckpt')))
    (weight,) = table.weights
    assert (weight.variable.name, weight.variable.shape, weight.variable.dtype) == ('dense/kernel', (2, 3), 'float32')


def test_events(tmp_path):
    with tf.Graph().as_default():
        writer = tf.compat.v1.summary.FileWriter(str(tmp_path))
        for step in (10, 20):
            values = [tf.compat.v1.Summary.Value(tag='loss', simple_value=step / 4)]
            writer.add_summary(tf.compat.v1.Summary(value=values), step)
            rate = [tf.compat.v1.Summary.Value(tag='global_step/sec', simple_value=7.0)]  # of another hook
            writer.add_summary(tf.compat.v1.Summary(value=rate), step)
        writer.close()
    with tf.summary.create_file_writer(str(tmp_path)).as_default():
        tf.summary.scalar('accuracy', 0.5, step=30)
    paths = RunFiles(str(tmp_path)).events()
    run = RunFiles(str(tmp_path))
    log = run.train
    assert run.problems == [] and log.series['loss'].points().values.tolist() == [2.5, 5.0]
    assert log.series['accuracy'].last == (30, 0.5) and len(log) == 3
    assert log.series['global_step/sec'].points().steps.tolist() == [10, 20] and log.stretches.steps_again == 0
    with open(min(paths), 'ab') as file:
        file.write(b'torn')
    torn = RunFiles(str(tmp_path))
    assert len(torn.train) and 'ends within a record' in torn.problems[0]


def test_a_real_run(tmp_path):
    environ = {**os.environ, 'PYTHONPATH': str(ROOT), 'TF_CPP_MIN_LOG_LEVEL': '2'}
    flags = ('--max_steps=20', '--log_every_steps=5', '--save_checkpoints_steps=10', f'--model_dir={tmp_path / "run"}')
    for command in (('-m', 'estimator_trainer', '--dataset=mnist_5k', *flags), ('-c', RUN, str(tmp_path / 'run'))):
        done = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
    text = (tmp_path / 'run' / 'report.html').read_text()
    words = ' '.join(re.sub('<[^>]*>', ' ', text).split())
    for part in (
        'The run is done: all steps are trained.',
        'The run began, from the beginning.',
        'mnist/conv/kernel',
        'step 20 of 20',
    ):
        assert part in words
