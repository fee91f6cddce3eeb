"""How a tool ends."""

import dataclasses
import errno

import pytest

from estimator_trainer import exit_codes
from estimator_trainer.config import declaration, flags
from estimator_trainer.errors import UsageError
from estimator_trainer.tools import command_line


@dataclasses.dataclass(frozen=True)
class Flags:
    out: str = declaration.flag('', 'A file.', group='The result')


def end(argv, command, codes=None):
    return command_line.run(argv, 'usage: tool\n', Flags, command, codes)


def raising(error):
    def command():
        raise error

    return command


@pytest.mark.parametrize(
    'error, code, text',
    [
        (UsageError('--out: is missing'), exit_codes.USAGE, 'error: --out: is missing\n'),
        (KeyError('x'), exit_codes.NO_DATA, "error: 'x'\n"),
        (OSError(errno.ENOSPC, 'No space', 'f'), exit_codes.CANNOT_WRITE, 'error: f: No space; mend that, then give '),
        (OSError(errno.ESTALE, 'Stale'), exit_codes.FILES_AWAY, 'error: Stale; see that its file system works'),
        (KeyboardInterrupt(), exit_codes.INTERRUPTED, ''),
    ],
)
def test_an_error_is_one_line_and_a_code(error, code, text, capsys):
    assert end([], raising(error), {LookupError: exit_codes.NO_DATA}) == code
    out, err = capsys.readouterr()
    assert (out, err[: len(text)], err.count('\n')) == ('', text, bool(text))


def test_other_errors_are_not_hidden():
    with pytest.raises(ZeroDivisionError):
        end([], lambda: 1 / 0)


def test_its_own_code_and_its_help(capsys):
    assert end(['--out=x'], lambda: 7) == 7
    assert end(['--help'], raising(AssertionError())) == exit_codes.OK
    assert capsys.readouterr().out.startswith('usage: tool\n\nThe result:\n  --out: A file.')


def test_words_stand_before_between_and_after_flags():
    values, words = flags.parse_with_words(Flags, ['tool', 'a', '--out=x', 'b', '--out', 'y', 'c'])
    assert (values.out, words) == ('y', ['a', 'b', 'c'])
