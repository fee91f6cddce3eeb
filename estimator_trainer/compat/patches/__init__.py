"""Every patch, and every use of a private name, of TensorFlow, Keras, Estimator and the libraries beside them.

Each is a file here or elsewhere in `compat`, or a function of one. Its docstring says what it touches, what happens
without it, and for whom it is; `table` reads the docstrings, and `doctor` prints them. Nothing outside `compat` patches
anything or uses such a name.

Those of `AFTER` mend upstream's defects, the same on every TensorFlow, in every program that uses `compat`. Each is
applied when its module has been imported. One switch turns all of them off: `compat.install(fixes=False)`, `compat run
--no-fixes`, or ESTIMATOR_TRAINER_FIXES=0 in the environment. The trainer and the tools call the others.
"""

from __future__ import annotations

import functools
import importlib

from estimator_trainer.compat import hook, lacks

TYPE_CHECKING = False  # `typing` takes a while to import
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_UPSTREAM = 'tensorflow_estimator.python.estimator.'
_DISTRIBUTE = 'tensorflow.python.distribute.'

AFTER = (  # (module, the patches that its import calls)
    ('tensorflow', ('log_lines.print_once',)),
    (
        _UPSTREAM + 'estimator',
        (
            'strategy_mends.drive_clusters',
            'sync_training',
            'strategy_mends.add_up_wishes_with_loss',
            'strategy_mends.build_savers_later',
            'session_mends.close_at_once',
            'evaluation_mends.allow_own_loss_metric',
            'evaluation_mends.free_graphs',
            'session_mends.look_often',
        ),
    ),
    (_UPSTREAM + 'run_config', ('strategy_mends.drive_clusters', 'strategy_mends.share_strategies')),
    (_UPSTREAM + 'training', ('strategy_mends.drive_clusters', 'training_end')),
    (_DISTRIBUTE + 'collective_all_reduce_strategy', ('multi_worker_mends.evaluate_alone',)),
    (_DISTRIBUTE + 'cross_device_utils', ('multi_worker_mends.add_up_tables',)),
    (_UPSTREAM + 'early_stopping', ('early_stopping_hooks',)),
    (_UPSTREAM + 'exporter', ('evaluation_mends.remember_best',)),
    (_UPSTREAM + 'inputs.queues.feeding_functions', ('pandas_inputs.take_strings',)),
    (_UPSTREAM + 'head.base_head', ('strategy_mends.report_mean_loss',)),
)

_enabled = False
_mended: set[str] = set()


@functools.cache
def _mend_after(name: str, patches: tuple[str, ...]) -> Callable[[Any], None]:
    """A function that calls each of the patches with the module of this name, once: a function, or `mend` of a file.

    Where TensorFlow lacks what one of them mends, the program goes on without it: those that change what is computed
    refuse to go on themselves.
    """

    def mend(module: Any) -> None:
        if _enabled and name not in _mended:
            _mended.add(name)
            for patch in patches:
                file, _, function = patch.partition('.')
                with lacks.or_without():
                    getattr(importlib.import_module(f'{__name__}.{file}'), function or 'mend')(module)

    return mend


def apply() -> None:
    """Mends what `AFTER` names, now or when the modules are imported; a second call changes nothing."""
    global _enabled
    _enabled = True
    for module, patches in AFTER:
        hook.after(module, _mend_after(module, patches))


def withdraw() -> None:
    """Mends nothing from here on.

    Raises:
        RuntimeError: something is mended already.
    """
    global _enabled
    _enabled = False
    if any(module.startswith(_UPSTREAM) for module in _mended):
        raise RuntimeError(
            'Estimators are mended already: say install(fixes=False) before the program '
            'first touches tf.estimator, or set ESTIMATOR_TRAINER_FIXES=0.'
        )
