"""Runs TensorFlow Estimator jobs on today's TensorFlow, on one machine or many.

docs/api.md describes the functions. Each name is imported when it is asked for; none of them imports TensorFlow.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from estimator_trainer.jobs import Job as Job
    from estimator_trainer.jobs import JobError as JobError
    from estimator_trainer.jobs import KerasParts as KerasParts

__version__ = '0.1.0'
__all__ = ['Job', 'JobError', 'KerasParts']
_MODULES = {  # name -> its module
    'Job': 'estimator_trainer.jobs',
    'JobError': 'estimator_trainer.jobs',
    'KerasParts': 'estimator_trainer.jobs',
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
