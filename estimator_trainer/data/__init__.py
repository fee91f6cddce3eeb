"""How examples become batches. Knows nothing of clusters, strategies or loops."""

__all__ = ['array_batches', 'file_batches', 'open_source']


def __getattr__(name: str) -> object:  # modules that read file names and indexes must not import TensorFlow
    if name == 'array_batches':
        from estimator_trainer.data.pipeline import array_batches

        return array_batches
    if name in ('file_batches', 'open_source'):
        from estimator_trainer.data import files

        return getattr(files, name)
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
