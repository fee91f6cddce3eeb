"""Runs TensorFlow Estimator jobs on today's TensorFlow, on one machine or many.

docs/api.md describes the functions. Each name is imported when it is asked for; none of them imports TensorFlow.
"""

import importlib

TYPE_CHECKING = False  # type checkers take this name for True; importing typing takes longer than all else here
if TYPE_CHECKING:
    from estimator_trainer.api.functions import evaluate, export, predict, train
    from estimator_trainer.api.run_result import Result
    from estimator_trainer.errors import DatasetError, RunFailed, UsageError
    from estimator_trainer.jobs import Job, JobError, KerasParts

__version__ = '0.1.0'
__all__ = [
    'DatasetError',
    'Job',
    'JobError',
    'KerasParts',
    'Result',
    'RunFailed',
    'UsageError',
    'evaluate',
    'export',
    'predict',
    'train',
]
_MODULES = {  # its module, for each name
    'DatasetError': 'estimator_trainer.errors',
    'Job': 'estimator_trainer.jobs',
    'JobError': 'estimator_trainer.jobs',
    'KerasParts': 'estimator_trainer.jobs',
    'Result': 'estimator_trainer.api.run_result',
    'RunFailed': 'estimator_trainer.errors',
    'UsageError': 'estimator_trainer.errors',
    'evaluate': 'estimator_trainer.api.functions',
    'export': 'estimator_trainer.api.functions',
    'predict': 'estimator_trainer.api.functions',
    'train': 'estimator_trainer.api.functions',
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
