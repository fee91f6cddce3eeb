"""What is trained: a `Job`, by a built-in name or as `package.module:attribute`."""

from estimator_trainer.jobs.job import BUILT_IN, Job, JobError, KerasParts, load, load_early, typed_params

__all__ = ['BUILT_IN', 'Job', 'JobError', 'KerasParts', 'load', 'load_early', 'typed_params']
