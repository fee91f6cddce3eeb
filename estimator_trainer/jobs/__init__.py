"""What is trained: a `Job`, by a built-in name or as `package.module:attribute`."""

from estimator_trainer.jobs.job import BUILT_IN, Job, JobError, can_load_early, load, typed_params

__all__ = ['BUILT_IN', 'Job', 'JobError', 'can_load_early', 'load', 'typed_params']
