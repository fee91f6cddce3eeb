"""What it means that the operating system refuses a data file. Imports no TensorFlow."""

import errno

from estimator_trainer.errors import DatasetError, DatasetRefused, DatasetUnavailable
from estimator_trainer.run_dir import file_errors

_LIMITS = (errno.EMFILE, errno.ENOSPC, errno.EDQUOT)


def because(path: str, error: OSError, when: str = '') -> DatasetError:
    """The error of a file that cannot be read, in the words of the operating system.

    Args:
        when: what is said behind "cannot be read", such as ' any more'.
    """
    text = f'{path} cannot be read{when} ({error.strerror or error})'
    if error.errno in file_errors.MAY_PASS:
        return DatasetUnavailable(f'{text}; {file_errors.cure(error.errno)}')
    if error.errno in _LIMITS:
        return DatasetRefused(f'{text}; {file_errors.cure(error.errno)}')
    return DatasetError(text)
