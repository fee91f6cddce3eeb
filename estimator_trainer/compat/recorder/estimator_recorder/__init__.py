"""Records what the Estimators of a program compute, inside the program's own process.

It needs TensorFlow with tf.estimator, NumPy, and nothing of estimator_trainer but the files hook.py and
patches/seeds.py of compat. `install` imports neither TensorFlow nor NumPy: each part waits until the program imports
what it belongs to.

1. `compat/patches/seeds.py` fixes the random numbers that the program leaves open.
2. `limits.py` shortens the training, stops the clocks, and moves model_dirs into the folder of the run.
3. `patches.py` puts the recorder around the methods of Estimator; `session_hooks.py` reads the sessions, and
   `exports.py` calls the exported models.
4. `recording.py` writes it all down: events.jsonl and arrays.bin in the folder of the run.

The environment variable ESTIMATOR_TRAINER_VERIFY names the JSON file with the settings. `verify` writes it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

VARIABLE = 'ESTIMATOR_TRAINER_VERIFY'
_ESTIMATORS = 'tensorflow_estimator.python.estimator.'


def install() -> None:
    """Does what there is to do now, and asks for the rest when the program imports TensorFlow."""
    with open(os.environ[VARIABLE], encoding='utf-8') as file:
        settings = json.load(file)
    hook = _of_compat('hook')
    _of_compat('patches.seeds').install(hook, settings['seed'])

    def patch(name: str) -> Callable[..., Any]:
        def patch_module(module: Any) -> None:
            from estimator_recorder import patches

            getattr(patches, name)(module, settings)

        return patch_module

    hook.after(_ESTIMATORS + 'estimator', patch('of_estimators'))
    hook.after(_ESTIMATORS + 'training', patch('of_train_and_evaluate'))


def _of_compat(name: str) -> ModuleType:
    """A module of compat: that of compat where compat is at work, else a copy."""
    running = sys.modules.get(f'estimator_trainer.compat.{name}')
    if running is not None:
        return running
    compat = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.path.join(compat, *name.split('.')) + '.py'
    spec = importlib.util.spec_from_file_location(f'estimator_recorder.of_compat.{name}', path)
    assert spec and spec.loader  # it is a file
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
