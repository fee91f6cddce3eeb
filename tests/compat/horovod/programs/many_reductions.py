"""Reduces many tensors in operations of their own, which are ready in another order in each rank."""

import json
import time

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
COUNT = 20
hvd.init()


def ready_after(secs, value):
    return tf.numpy_function(lambda: (time.sleep(secs), np.float32(value))[1], [], tf.float32)


with tf.Graph().as_default():
    order = range(COUNT) if hvd.rank() == 0 else reversed(range(COUNT))
    reduced = {}
    for number in order:
        with tf.control_dependencies([ready_after(0, 0.0)]):
            value = tf.constant(float(number))
        reduced[number] = hvd.allreduce(value + hvd.rank(), average=False, name=f'number{number}')
    in_branch = v1.cond(tf.constant(True), lambda: hvd.allreduce(1.0, average=False, name='branch'), lambda: 0.0)
    fetches = [reduced[number] for number in range(COUNT)] + [in_branch]
    with v1.Session(config=v1.ConfigProto(inter_op_parallelism_threads=2)) as session:
        print(json.dumps([float(value) for value in session.run(fetches)]), flush=True)
