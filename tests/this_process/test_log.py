"""How times and bars are shown."""

import os

import pytest

from estimator_trainer.this_process import log


@pytest.mark.parametrize(
    'seconds, text',
    [
        (0, '0s'),
        (0.4, '0s'),
        (59.4, '59s'),
        (59.6, '1m00s'),
        (61, '1m01s'),
        (600, '10m00s'),
        (3599.7, '1h00m'),
        (3725, '1h02m'),
        (360000, '100h00m'),
    ],
)
def test_duration(seconds, text):
    assert log.duration(seconds) == text


@pytest.mark.parametrize(
    'flag, tty, bar', [('on', False, True), ('off', True, False), ('auto', True, True), ('auto', False, False)]
)
def test_wants_bar(flag, tty, bar, monkeypatch):
    monkeypatch.setattr('sys.stderr.isatty', lambda: tty, raising=False)
    monkeypatch.setattr('sys.stderr.fileno', lambda: 2, raising=False)
    monkeypatch.setattr('os.get_terminal_size', lambda fd: os.terminal_size((80, 24)))
    assert log.wants_bar(flag) == bar


def test_no_bar_on_a_terminal_without_columns(monkeypatch):
    monkeypatch.setattr('sys.stderr.isatty', lambda: True, raising=False)
    monkeypatch.setattr('sys.stderr.fileno', lambda: 2, raising=False)
    monkeypatch.setattr('os.get_terminal_size', lambda fd: os.terminal_size((0, 0)))
    assert not log.wants_bar('auto')
