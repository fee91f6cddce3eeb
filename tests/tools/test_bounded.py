"""bounded: what a program that failed has said."""

import signal

import pytest

from estimator_trainer.tools import bounded

SESSION = """\
Traceback (most recent call last):
  File "train.py", line 9, in <module>
tensorflow.python.framework.errors_impl.InvalidArgumentError: Graph execution error:

Detected at node 'GatherV2' defined at (most recent call last):
    File "train.py", line 7, in <module>
Node: 'GatherV2'
indices[0] = 7 is not in [0, 3)
\t [[{{node GatherV2}}]]

Original stack trace for 'GatherV2':
"""
PLACES = [f'  File "array_ops.py", line {line}, in gather' for line in range(20)]


def test_the_line_that_tells_something_is_shown_where_the_last_lines_do_not_have_it(tmp_path):
    log = tmp_path / 'log'
    log.write_text('\n'.join([SESSION, *PLACES]))
    assert bounded.tail(str(log)).splitlines() == [
        '  | InvalidArgumentError: indices[0] = 7 is not in [0, 3)',
        '  | ...',
        *(f'  | {line}' for line in PLACES[-15:]),
    ]


def test_the_last_lines_alone_where_they_have_it(tmp_path):
    log = tmp_path / 'log'
    log.write_text(SESSION)
    assert bounded.tail(str(log)).splitlines() == [f'  | {line}' for line in SESSION.splitlines()[-15:]]
    log.write_text('one\ntwo')
    assert bounded.tail(str(log)) == '  | one\n  | two'


def test_a_signal_ends_the_program_whatever_caught_it_before_and_does_so_again_after(monkeypatch):
    for handler in (signal.SIG_DFL, lambda signum, frame: None, signal.SIG_IGN):
        monkeypatch.setattr(signal, 'getsignal', {signal.SIGTERM: handler, signal.SIGHUP: signal.SIG_IGN}.get)
        handlers = {}
        monkeypatch.setattr(signal, 'signal', handlers.__setitem__)
        with bounded.ended_by_signals():
            if handler is not signal.SIG_IGN:
                with pytest.raises(SystemExit):
                    handlers[signal.SIGTERM](signal.SIGTERM, None)
        assert handlers == ({} if handler is signal.SIG_IGN else {signal.SIGTERM: handler})
