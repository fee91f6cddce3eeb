"""What sitecustomize.py does in the interpreter of the program: another sitecustomize first, then Estimators."""

import importlib.machinery
import importlib.util
import os
import sys


def _bring_estimators() -> None:
    try:
        import estimator_trainer.compat  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != 'estimator_trainer':
            raise
        sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(_HERE))))  # not installed
        import estimator_trainer.compat  # noqa: F401
    from estimator_trainer.compat import cures

    tf1 = 'ESTIMATOR_TRAINER_TF1' in os.environ
    if tf1:
        import estimator_trainer.compat.tf1  # noqa: F401
    cures.install(tf1)
    if 'ESTIMATOR_TRAINER_HOROVOD' in os.environ:
        import estimator_trainer.compat.horovod  # noqa: F401
    if 'ESTIMATOR_TRAINER_INTERNALS' in os.environ:
        from estimator_trainer.compat import internals

        internals.install()
    if 'ESTIMATOR_TRAINER_SEED' in os.environ:
        from estimator_trainer.compat import hook
        from estimator_trainer.compat.patches import seeds

        seeds.install(hook, int(os.environ['ESTIMATOR_TRAINER_SEED']))


_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]
_other = importlib.machinery.PathFinder.find_spec('sitecustomize')  # which this one hides
if _other and _other.origin and _other.loader:
    sys.modules['sitecustomize'] = importlib.util.module_from_spec(_other)
    _other.loader.exec_module(sys.modules['sitecustomize'])
_bring_estimators()
