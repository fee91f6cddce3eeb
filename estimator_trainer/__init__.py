"""Runs TensorFlow Estimator jobs on today's TensorFlow, on one machine or many."""

__version__ = '0.1.0'


def __getattr__(name: str) -> object:
    """`from estimator_trainer import Job` is what many try first. It is imported only when it is asked for."""
    if name != 'Job':
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    from estimator_trainer.jobs import Job

    return Job
