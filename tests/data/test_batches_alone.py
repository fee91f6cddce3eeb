"""data.array_batches and data.file_batches in a program of the user's own, such as a test of an input_fn."""

import subprocess
import sys

PROGRAM = """
import sys

import numpy as np
import tensorflow as tf

from estimator_trainer.data import array_batches
from estimator_trainer.data.files import FileSpec, file_batches

params = {'batch_size': 4, 'seed': 1, 'start_step': 0}
x = np.arange(100)
for mode in ('train', 'eval'):
    print(len(next(iter(array_batches({'x': x}, x, mode, params)))[1]))

with tf.io.TFRecordWriter(sys.argv[1]) as writer:
    for number in x:
        feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[number]))
        writer.write(tf.train.Example(features=tf.train.Features(feature={'x': feature})).SerializeToString())
spec = FileSpec({'x': tf.io.FixedLenFeature([], tf.int64)})
print(sum(len(batch['x']) for batch in file_batches([sys.argv[1]], spec, 'eval', params)))
print(file_batches([sys.argv[1]], spec, 'train', params).element_spec['x'].dtype.name)
"""


def test_they_need_no_estimators(tmp_path):
    done = subprocess.run(
        [sys.executable, '-c', PROGRAM, str(tmp_path / 'x.tfrecord')], capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout.split()) == (0, ['4', '4', '100', 'int64']), done.stderr
