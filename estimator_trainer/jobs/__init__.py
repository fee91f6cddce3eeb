"""What is trained: a `Job`, by a built-in name or as `package.module:attribute`."""

from estimator_trainer.jobs.job import Job, JobError, KerasParts
from estimator_trainer.jobs.loading import BUILT_IN, Prepared, load, load_early, prepare, typed_params

__all__ = ['BUILT_IN', 'Job', 'JobError', 'KerasParts', 'Prepared', 'load', 'load_early', 'prepare', 'typed_params']
