"""What the README promises of flags and exit codes, against the tables in the code."""

import pathlib
import re

import pytest

from estimator_trainer import exit_codes, flags

README = pathlib.Path(__file__).parents[2] / 'README.md'
NAMES = [name for names in flags.GROUPS.values() for name in names]
WITH_DEFAULT = [name for name in NAMES if flags.FLAGS[name].default not in (None, '', [])]


def rows(*header):
    """The first cells of the table whose header row begins with these cells."""
    lines = iter(README.read_text(encoding='utf-8').splitlines())
    found = []
    for line in lines:
        if [cell.strip() for cell in line.strip('|').split('|')][: len(header)] == list(header):
            break
    for line in lines:
        if not line.startswith('|'):
            break
        found.append([cell.strip() for cell in line.strip('|').split('|')])
    return found[1:]  # after the ruler


@pytest.mark.parametrize('name', NAMES)
def test_every_flag_is_in_the_table(name):
    assert any(f'`--{name}`' in row[0] for row in rows('flag', 'default'))


def test_the_table_has_no_flag_too_many():
    shown = [name for row in rows('flag', 'default') for name in re.findall(r'`--(\w+)`', row[0])]
    assert sorted(shown) == sorted(NAMES)


@pytest.mark.parametrize('name', WITH_DEFAULT)
def test_the_table_shows_the_default(name):
    default = flags.FLAGS[name].default
    text = ','.join(default) if isinstance(default, list) else str(default)
    text = text.lower() if isinstance(default, bool) else text
    (row,) = (row for row in rows('flag', 'default') if f'`--{name}`' in row[0])
    assert row[1].strip('`') == text


@pytest.mark.parametrize('code', exit_codes.MEANINGS)
def test_every_exit_code_is_in_the_table(code):
    assert str(code) in [row[0] for row in rows('code')]


def test_the_table_has_no_exit_code_too_many():
    assert {int(row[0]) for row in rows('code') if row[0].isdigit()} == set(exit_codes.MEANINGS)


def test_the_codes_are_an_api():
    assert (exit_codes.OK, exit_codes.FAILED, exit_codes.USAGE, exit_codes.NO_DATA) == (0, 1, 64, 66)
    assert (exit_codes.INTERRUPTED, exit_codes.TERMINATED) == (130, 143)
    constants = {value for name, value in vars(exit_codes).items() if name.isupper() and isinstance(value, int)}
    assert constants == set(exit_codes.MEANINGS)


@pytest.mark.parametrize('code', exit_codes.MEANINGS)
def test_a_known_code_is_described(code):
    assert exit_codes.describe(code) == exit_codes.MEANINGS[code]
    assert exit_codes.retryable(code) == (code >= 128)


def test_our_own_retryable_codes_are_no_signals():
    signals = {128 + number for number in range(1, 65)}
    own = {code for code in exit_codes.MEANINGS if code >= 128}
    assert own & signals == {exit_codes.INTERRUPTED, exit_codes.TERMINATED}
    assert exit_codes.SYMPTOMS < own


@pytest.mark.parametrize(
    'code, said',
    [
        (137, 'killed by signal 9'),
        (139, 'killed by signal 11'),
        (129, 'killed by signal 1'),
        (128, 'unknown exit code'),
        (2, 'unknown exit code'),
        (-1, 'unknown exit code'),
    ],
)
def test_any_other_code_is_described(code, said):
    assert exit_codes.describe(code) == said
