"""Where the job of `hostile_job.py` comes to each step: it fails there, or holds up its process."""

import ctypes
import sys
import threading
import time

import tensorflow as tf

from tests.chaos import faults, hostile_job


class Hook(tf.estimator.SessionRunHook):
    """Does after a step what the params say."""

    def __init__(self, scene, params):
        self._scene, self._params, self._held = scene, params, False

    def begin(self):
        self._step = tf.compat.v1.train.get_global_step()

    def after_run(self, run_context, run_values):
        step, params = int(run_context.session.run(self._step)), self._params
        if self._scene:
            self._scene.reached(faults.TRAINING, step)
        time.sleep(params['slow_ms'] / 1000)
        if step < params['at']:
            return
        if hostile_job.is_to_fail(params, hostile_job.HOOK):
            raise hostile_job.the_exception(params)
        if hostile_job.is_to_fail(params, hostile_job.HOLDS_THE_GIL) and not self._held:
            self._held = True
            hold_the_lock(params['secs'])


def hold_the_lock(secs: int) -> None:
    """C code that does not let Python's global lock go, at the worst moment: the peers are being probed."""
    deadline = time.monotonic() + 30
    while not _is_probing() and time.monotonic() < deadline:
        pass
    ctypes.PyDLL(None).sleep(secs)


def _is_probing() -> bool:
    """Whether the thread that watches the peers waits for one of them."""
    watching = [thread.ident for thread in threading.enumerate() if thread.name == 'peers']
    frame = sys._current_frames().get(watching[0]) if watching else None
    while frame is not None:
        if frame.f_code.co_name in ('create_connection', 'select'):
            return True
        frame = frame.f_back
    return False
