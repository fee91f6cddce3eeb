"""what_failed: an exception in one line."""

import json
import sys
import types

import pytest

from estimator_trainer import error_lines
from estimator_trainer.training import what_failed


class OpError(Exception):
    """As TensorFlow's: its text is in `message`."""

    def __init__(self, message):
        super().__init__()
        self.message = message


@pytest.mark.parametrize(
    'message, line',
    [
        (
            'Graph execution error:\n\nDetected at node add defined at (most recent call last):\n'
            '  File "x.py", line 3, in f\nNode: add\nincompatible shapes\n more',
            'incompatible shapes',
        ),
        (
            'Graph execution error:\n\nDetected at node PyFunc defined at (most recent call last):\n<stack traces '
            "unavailable>\nKeyError: 'x'\nTraceback",
            "KeyError: 'x'",
        ),
        (
            '{{function_node __wrapped__IteratorGetNext_device_/job:worker/device:CPU:0}} corrupted record',
            'corrupted record',
        ),
        ('From /job:worker/replica:0/task:1:\nConnection reset by peer', 'Connection reset by peer'),
        (
            "\n=====================\nUNKNOWN: From /job:worker/replica:0/task:0:\nKeyError: 'x'\nTraceback (most",
            "KeyError: 'x'",
        ),
        ('', 'OpError'),
        ('x' * 300, 'x' * 200 + '...'),
    ],
)
def test_the_line_that_tells_something(message, line):
    assert error_lines.short(what_failed.first_line(OpError(message))) == line


def raised(error):
    try:
        raise error
    except Exception as caught:
        return caught


TRACED = (
    'in user code:\n\n    File "/lib/python/site-packages/x.py", line 35, in f  *\n        g()\n'
    '    File "/home/me/raises.py", line 6, in model_fn  *\n        raise KeyError(name)\n\n    %s\n'
)


@pytest.mark.parametrize(
    'error, said',
    [
        (KeyError('no column named age'), "KeyError: 'no column named age' (test_what_failed.py, line"),
        (ValueError(TRACED % "KeyError: 'no column'"), "KeyError: 'no column' (raises.py, line 6)"),
        (ValueError(TRACED % 'ValueError: one\n    two'), 'ValueError: one (raises.py, line 6)'),
        (
            OpError('Graph execution error:\n\nDetected at node add defined at\n  File "x.py", line 3, in f\nbad'),
            'OpError: bad (x.py, line 3)',
        ),
        (OpError('x' * 300), f'OpError: {"x" * 200}... (test_what_failed.py'),
    ],
)
def test_class_text_and_place(error, said):
    assert what_failed.described(raised(error)).startswith(said)


def test_without_code_of_the_job_there_is_no_place():
    error = json.JSONDecodeError('Expecting value', '', 0)
    assert what_failed.described(error) == 'JSONDecodeError: Expecting value: line 1 column 1 (char 0)'


class Refused(ValueError):
    """Of ours."""


def wrapped(text, before):
    """An exception with this text that was raised while another one was handled."""
    try:
        try:
            raise before
        except Exception:
            raise OpError(text) from None
    except OpError as caught:
        return caught


def test_what_autograph_has_wrapped():
    refused = Refused('no')
    assert what_failed.in_traced_code(wrapped(TRACED % 'Refused: no', refused), Refused) is refused
    assert what_failed.in_traced_code(wrapped(TRACED % 'KeyError: no', KeyError('no')), Refused) is None
    assert what_failed.in_traced_code(wrapped('another error', refused), Refused) is None
    assert what_failed.in_traced_code(refused, Refused) is None


def test_a_name_of_tensorflow_1_has_its_cure(monkeypatch):
    tensorflow = types.ModuleType('tensorflow')
    tensorflow.data = types.SimpleNamespace(Dataset=type('Dataset', (), {}))
    tensorflow.compat = types.SimpleNamespace(v1=types.SimpleNamespace(layers=None))
    monkeypatch.setitem(sys.modules, 'tensorflow', tensorflow)
    with pytest.raises(AttributeError) as old:
        _ = tensorflow.layers
    with pytest.raises(AttributeError) as unknown:
        _ = tensorflow.no_such_name
    assert '; tf.layers is of TensorFlow 1: put `import estimator_trainer.compat.tf1`' in what_failed.described(
        old.value
    )
    assert 'TensorFlow 1' not in what_failed.described(unknown.value)
