"""How every tool ends: an error becomes one line on stderr, and an exit code."""

import sys
from collections.abc import Callable, Mapping, Sequence

from estimator_trainer import exit_codes
from estimator_trainer.config import flags
from estimator_trainer.config.declaration import flag
from estimator_trainer.errors import DatasetError, UsageError
from estimator_trainer.run_dir import file_errors
from estimator_trainer.storage import store


class Ended(Exception):
    """A command ends before it is done. `code` is its exit code; the message may be empty: it has been said."""

    def __init__(self, code: int, message: str = ''):
        super().__init__(message)
        self.code = code


def model_dirs(several: bool = False):
    """The flag --model_dir of a command that takes folders as words."""
    more = ' Repeatable.' if several else ''
    text = f'The folder of a run, in place of the word MODEL_DIR.{more}'
    return flag((), text, group='The run', repeated=True, unset='the word')


def run(
    argv: Sequence[str],
    usage: str,
    config: type,
    command: Callable[[], int],
    codes: Mapping[type[Exception], int] | None = None,
) -> int:
    """Runs a tool, or prints its help if `argv` asks for that.

    Args:
        argv: without the names of the program and of the tool.
        usage: what --help prints first.
        config: the dataclass of its flags.
        command: does the work. Its exit code.
        codes: the exit code of each further kind of exception that becomes one line.

    Returns:
        The exit code: that of `command`, of `codes`, of Ended, USAGE, that of data, a file or a store which cannot be
        read or written, or INTERRUPTED.
    """
    if flags.wants_help(argv):
        print(f'{usage}\n{flags.help_text(config)}')
        return exit_codes.OK
    codes = {**(codes or {}), UsageError: exit_codes.USAGE}
    try:
        return command()
    except tuple(codes) as error:
        return _fail(next(code for kind, code in codes.items() if isinstance(error, kind)), str(error))
    except DatasetError as error:
        return _fail(error.exit_code, str(error))
    except Ended as error:
        return _fail(error.code, str(error)) if str(error) else error.code
    except store.StoreUnavailable as error:
        return _fail(exit_codes.FILES_AWAY, f'{error}; the same command may work later.')
    except store.StoreError as error:
        return _fail(exit_codes.CANNOT_WRITE, f'{error}.')
    except OSError as error:
        where = f'{error.filename}: ' if error.filename else ''
        text = f'{where}{error.strerror or error}; {file_errors.cure(error.errno)}'
        return _fail(file_errors.exit_code(error.errno), text)
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED


def _fail(code: int, text: str) -> int:
    print(f'error: {text}', file=sys.stderr)
    return code
