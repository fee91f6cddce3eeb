"""What the operating system says when it refuses a file: which errors may pass, and which one a text names.

TensorFlow hides the error number: its exceptions hold only the sentence of strerror(3), as in
"model.ckpt-20.index; Permission denied". Pure; imports no TensorFlow.
"""

import errno
import os

from estimator_trainer import exit_codes
from estimator_trainer.errors import UsageError

# A network file system that is away, a device that fails, a machine that is out of descriptors or memory:
# the same file may be read a minute later.
MAY_PASS = frozenset(
    (
        errno.EIO,
        errno.ESTALE,
        errno.ETIMEDOUT,
        errno.ENFILE,
        errno.ENOMEM,
        errno.EBUSY,
        errno.EAGAIN,
        errno.EINTR,
        errno.ENXIO,
        errno.ENODEV,
        errno.EREMOTEIO,
        errno.ENOTCONN,
        errno.ESHUTDOWN,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.ECONNABORTED,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.ENOLINK,
    )
)
_CURES = {
    errno.EMFILE: 'raise the limit of open files (ulimit -n)',
    errno.EACCES: 'mend the permissions',
    errno.EPERM: 'mend the permissions',
}


def number_in(text: str) -> int | None:
    """The number of the operating system's error that a text of TensorFlow ends one of its parts with.

    None where it names none: then the file could be read, and it is its content that is wrong.
    """
    for sentence, number in _sentences():
        if f'; {sentence}' in text:
            return number
    return None


def exit_code(number: int | None) -> int:
    """The exit code of a task whose model_dir has failed with an error of this number."""
    return exit_codes.FILES_AWAY if number in MAY_PASS else exit_codes.CANNOT_WRITE


def cure(number: int | None) -> str:
    """What the user can do about an error of this number."""
    if number in MAY_PASS:
        return 'see that its file system works; the same command resumes'
    return f'{_CURES.get(number or 0, "mend that")}, then give the same command again'


def _sentences() -> list[tuple[str, int]]:
    """(sentence, number), the longest first: one may begin with another. In the language that the C library
    speaks now."""
    return sorted(
        ((os.strerror(number), number) for number in errno.errorcode), key=lambda pair: len(pair[0]), reverse=True
    )


class ModelDirUnreadable(UsageError):
    """A file of the model_dir cannot be read, before anything has begun.

    Attributes:
        exit_code: of a program that ends with it.
    """

    def __init__(self, model_dir: str, name: str, error: OSError):
        super().__init__(f'--model_dir={model_dir}: its {name} cannot be read ({error.strerror}).')
        self.exit_code = exit_code(error.errno)
