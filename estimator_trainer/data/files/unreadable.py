"""The errors for data files that the operating system does not let us read. Imports no TensorFlow."""

import errno

from estimator_trainer.data.files import listing
from estimator_trainer.errors import DatasetError, DatasetRefused, DatasetUnavailable
from estimator_trainer.run_dir import file_errors

_LIMITS = (errno.EMFILE, errno.ENOSPC, errno.EDQUOT)


def stamp(path: str) -> listing.Stamp:
    """The size of a file and the time of its last change. Raises DatasetError if it cannot be read."""
    try:
        return listing.stamp(path)
    except OSError as error:
        raise because(path, error) from error


def because(path: str, error: OSError, when: str = '') -> DatasetError:
    """The error for a file that cannot be read, with the words of the operating system.

    Args:
        path: the file.
        error: the error of the operating system.
        when: the words after "cannot be read", such as ' any more'.
    """
    text = f'{path} cannot be read{when} ({error.strerror or error})'
    if error.errno in file_errors.MAY_PASS:
        return DatasetUnavailable(f'{text}; {file_errors.cure(error.errno)}')
    if error.errno in _LIMITS:
        return DatasetRefused(f'{text}; {file_errors.cure(error.errno)}')
    return DatasetError(text)
