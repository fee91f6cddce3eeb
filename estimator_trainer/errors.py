"""Errors that the user can mend. Imports nothing of ours but the exit codes."""

from collections.abc import Callable, Iterable, Sequence

from estimator_trainer import exit_codes


class UsageError(ValueError):
    """Something the user can mend before anything starts. Names the flag, the value and the cure."""


class DatasetError(Exception):
    """The data set is not there and cannot be had. The message says what to do.

    Attributes:
        exit_code: of a program that ends with it.
    """

    exit_code = exit_codes.NO_DATA


class NoBatch(DatasetError):
    """The data are there, and have no batch."""


class DatasetUnavailable(DatasetError):
    """The object store of the data does not answer or fails, a file system does so, or the process that prepares the
    data stands still. The same command may work later."""

    exit_code = exit_codes.FILES_AWAY


class DatasetRefused(DatasetError):
    """This machine has no more room or descriptors, which are needed to read the data."""

    exit_code = exit_codes.CANNOT_WRITE


class DataDamaged(DatasetError):
    """An example of the data cannot be used, or no checkpoint of the model_dir can be read."""

    exit_code = exit_codes.DAMAGED


class RunFailed(Exception):
    """A command that was started from Python has failed.

    Attributes:
        code: its exit code (exit_codes.py).
        message: why, in one line.
        lines: the last lines that it has written to stderr.
    """

    def __init__(self, code: int, message: str, lines: Sequence[str] = ()):
        super().__init__(code, message, tuple(lines))  # what pickle gives back
        self.code, self.message, self.lines = code, message, tuple(lines)

    def __str__(self):
        return f'{self.message} [exit code {self.code}: {exit_codes.describe(self.code)}]'


class BadExample(ValueError):
    """An example of the data, or a whole file, cannot be used. The message names the file and the place in it.

    Attributes:
        may_be_left_out: it is a single example, and the others can be used without it.
    """

    def __init__(self, message: str, may_be_left_out: bool = False):
        super().__init__(message)
        self.may_be_left_out = may_be_left_out


def nearest(word: str, known: Iterable[str], shown: Callable[[str], str] = str) -> str:
    """For a message: ' (did you mean X?)', with `shown` of the known word that is most like this one; '' if none is.

    One or two that have all parts of a name, as save_checkpoints_steps has those of save_steps, or begin with it, as
    accuracy does with acc, are the most like it.
    """
    import difflib  # programs under compat import this module, and need none of it

    known, parts = list(known), set(word.split('_'))
    having = [one for one in known if parts <= set(one.split('_'))]
    having = having or [one for one in known if word and one.startswith(word)]
    close = having if len(having) in (1, 2) else difflib.get_close_matches(word, known, n=1)
    return f' (did you mean {" or ".join(map(shown, close))}?)' if close else ''
