"""What is trained: a `Job`, by a built-in name or as `package.module:attribute`."""

from estimator_trainer.jobs.job import Job, JobError, KerasParts
from estimator_trainer.jobs.loading import BUILT_IN, checked_params, load, load_early, typed_params

__all__ = ['BUILT_IN', 'Job', 'JobError', 'KerasParts', 'checked_params', 'load', 'load_early', 'typed_params']
