"""A job whose chief takes long to verify a checkpoint: `--job=tests.chaos.slow_disk:job`."""

import dataclasses
import time

import tensorflow  # noqa: F401  so that the trainer loads this module, and calls `check`, once TensorFlow is there

from tests.chaos import job as plain
from tests.chaos.faults import Scene

VERIFIED = 'verified'  # an event of the scene
_slow = False


def check(params):
    """Slows down what reads a checkpoint."""
    global _slow
    if _slow:
        return
    from estimator_trainer.run_dir import checkpoints

    _slow, damage = True, checkpoints.damage

    def slowly(prefix):
        time.sleep(params['verify_secs'])  # it is the fault
        found = damage(prefix)
        scene = Scene.of_this_task()
        if scene:
            scene.happened(VERIFIED)
        return found

    checkpoints.damage = slowly


job = dataclasses.replace(plain.job, check=check, params={**plain.job.params, 'verify_secs': 0})
