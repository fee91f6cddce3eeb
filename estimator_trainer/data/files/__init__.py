"""Files as a data set: TFRecord, CSV, Parquet and ArrayRecord, read in an exact order."""

from estimator_trainer.data.files.spec import FORMATS, FileSpec

__all__ = ['FORMATS', 'FileSpec', 'file_batches', 'open_source']


def __getattr__(name: str) -> object:  # these two import TensorFlow
    if name == 'file_batches':
        from estimator_trainer.data.files.batches import file_batches

        return file_batches
    if name == 'open_source':
        from estimator_trainer.data.files.source import open_source

        return open_source
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
