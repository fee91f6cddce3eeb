"""Files as a data set: TFRecord, CSV, Parquet and ArrayRecord, read in an exact order."""

from estimator_trainer.data.files.spec import FORMATS, FileSpec

__all__ = ['FORMATS', 'FileSpec', 'file_batches', 'open_source']


def __getattr__(name):  # these two need TensorFlow
    if name == 'file_batches':
        from estimator_trainer.data.files.batches import file_batches as found
    elif name == 'open_source':
        from estimator_trainer.data.files.source import open_source as found
    else:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return found
