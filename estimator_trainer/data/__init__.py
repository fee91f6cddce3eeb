"""How examples become batches. Knows nothing of clusters, strategies or loops."""

__all__ = ['array_batches', 'file_batches', 'open_source']


def __getattr__(name):  # what reads file names and indexes does without TensorFlow
    if name == 'array_batches':
        from estimator_trainer.data.pipeline import array_batches as found
    elif name in ('file_batches', 'open_source'):
        from estimator_trainer.data import files

        found = getattr(files, name)
    else:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return found
