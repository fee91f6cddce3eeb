"""Where the job of `job.py` comes to its moments: in training, in evaluation, and within a checkpoint."""

import glob
import os
import time

import tensorflow as tf

from tests.chaos import faults


class Training(tf.estimator.SessionRunHook):
    """Comes to TRAINING after each step; fails and dawdles where the params say so."""

    def __init__(self, scene, params):
        self._scene, self._params = scene, params

    def begin(self):
        self._global_step = tf.compat.v1.train.get_global_step()

    def after_create_session(self, session, coord):
        if self._scene:
            self._scene.happened('session', int(session.run(self._global_step)))

    def after_run(self, run_context, run_values):
        step = int(run_context.session.run(self._global_step))
        if self._scene:
            self._scene.reached(faults.TRAINING, step)
            self._scene.held(step)
        if 0 < self._params['raise_at'] <= step:
            raise RuntimeError(f'the job fails at step {step}, as it was told')
        time.sleep(self._params['slow_ms'] / 1000)


class Evaluating(tf.estimator.SessionRunHook):
    """Comes to EVALUATING once, when the first batch has been counted."""

    def __init__(self, scene):
        self._scene, self._first = scene, True

    def begin(self):
        self._global_step = tf.compat.v1.train.get_global_step()

    def after_run(self, run_context, run_values):
        if self._scene and self._first:
            self._first = False
            self._scene.reached(faults.EVALUATING, int(run_context.session.run(self._global_step)))


def make_saver(scene, run_config):
    """The saver that Estimator would make, but for its coming to SAVING."""
    return _Saver(scene, max_to_keep=run_config.keep_checkpoint_max)


class _Saver(tf.compat.v1.train.Saver):
    """Comes to SAVING in the middle of a checkpoint.

    TensorFlow writes both files of a checkpoint under other names, gives the data file its own, then the
    index. All of that is one operation; so, where a fault is due, the files are made as they are in the
    midst of it.
    """

    def __init__(self, scene, max_to_keep):
        super().__init__(sharded=True, defer_build=True, save_relative_paths=True, max_to_keep=max_to_keep)
        self._scene = scene

    def save(self, sess, save_path, global_step=None, **kwargs):
        step = int(global_step)
        if self._scene.due(faults.SAVING, step):
            half = super().save(sess, str(self._scene.folder / 'half'), write_meta_graph=False, write_state=False)
            for data in glob.glob(f'{half}.data-*'):  # one of each parameter server
                os.replace(data, f'{save_path}-{step}{data[len(half) :]}')
        self._scene.reached(faults.SAVING, step)
        return super().save(sess, save_path, global_step=global_step, **kwargs)
