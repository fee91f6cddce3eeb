"""The weights of a run at each of its checkpoints, whichever loop has written them."""

import glob
import os
import re

from estimator_trainer import checkpoints
from estimator_trainer.migrate import weights

_OF_ESTIMATOR = re.compile(r'/(Adam|Adam_1|Momentum)$|^(global_step|beta[12]_power)$')
_OF_KERAS = re.compile(r'/(m|v|momentum)$|^iter$')


def by_step(model_dir: str) -> dict:
    """Global step -> name -> array: weights without slots, from all of the run's checkpoints."""
    found = {}
    for path in glob.glob(os.path.join(glob.escape(model_dir), 'model.ckpt-*.index')):
        prefix = path[:-len('.index')]
        found[checkpoints.step_of(prefix)] = of(prefix)
    return found


def of(prefix: str) -> dict:
    """Name -> array of one checkpoint."""
    if checkpoints.is_of_objects(prefix):
        return _without(_OF_KERAS, weights.from_keras(prefix))
    return _without(_OF_ESTIMATOR, weights.from_estimator(prefix))


def _without(pattern, arrays) -> dict:
    return {name: array for name, array in arrays.items() if not pattern.search(name)}
