"""An Estimator of TensorFlow 1 with two ranks. In the first attempt rank 1 is killed after step 20."""

import json
import os
import signal
import sys

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

STEPS, KILLED_AFTER = 40, 20


class KillHook(tf.train.SessionRunHook):
    def begin(self):
        self._step = tf.train.get_global_step()

    def after_create_session(self, session, coord):
        self.began = int(session.run(self._step))  # the hook of Horovod has told it

    def after_run(self, run_context, run_values):
        step = run_context.session.run(self._step)
        if step > KILLED_AFTER and hvd.rank() == 1 and os.environ['ESTIMATOR_TRAINER_GENERATION'].startswith('1-'):
            os.kill(os.getpid(), signal.SIGKILL)


def model_fn(features, labels, mode):
    prediction = tf.layers.dense(features, 1)
    loss = tf.losses.mean_squared_error(labels, prediction)
    optimizer = hvd.DistributedOptimizer(tf.train.AdamOptimizer(0.01 * hvd.size()))
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss, tf.train.get_global_step()))


def input_fn():
    x = np.random.RandomState(hvd.rank()).normal(size=(64, 3)).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).repeat().batch(8)


hvd.init()
config = tf.estimator.RunConfig(save_checkpoints_steps=10, tf_random_seed=hvd.rank())
folder = os.path.join(sys.argv[1], 'model') if hvd.rank() == 0 else None
estimator = tf.estimator.Estimator(model_fn, folder, config)
hook = KillHook()
estimator.train(input_fn, hooks=[hvd.BroadcastGlobalVariablesHook(0), hook], steps=None, max_steps=STEPS)
weights = {name: estimator.get_variable_value(name).tolist() for name in ('dense/kernel', 'dense/bias')}
print(json.dumps({'step': int(estimator.get_variable_value('global_step')), 'weights': weights, 'began': hook.began}))
