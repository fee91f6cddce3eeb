"""error_lines: the last words of a program, from its output. tests/training/test_what_failed.py tests single texts."""

import pytest

from estimator_trainer import error_lines

BEFORE = """\
WARNING: nothing
Traceback (most recent call last):
  File "a.py", line 1, in <module>
KeyError: 'of an earlier one, which was caught'
step 3
Traceback (most recent call last):
  File "/env/lib/python3.11/site-packages/tensorflow/python/client/session.py", line 1421, in _do_call
    raise type(e)(node_def, op, message)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
"""
OF_A_SESSION = """\
tensorflow.python.framework.errors_impl.InvalidArgumentError: Graph execution error:

Detected at node 'GatherV2' defined at (most recent call last):
    File "/home/me/train.py", line 7, in <module>
    File "/home/me/train.py", line 5, in g
Node: 'GatherV2'
indices[0] = 7 is not in [0, 3)
\t [[{{node GatherV2}}]]

Original stack trace for 'GatherV2':
  File "/home/me/train.py", line 7, in <module>
  File "/env/lib/python3.11/site-packages/tensorflow/python/ops/array_ops.py", line 5240, in gather

"""
OF_AUTOGRAPH = """\
ValueError: in user code:

    File "/home/me/train.py", line 6, in model_fn  *
        raise KeyError(name)

    KeyError: 'no column'
"""


@pytest.mark.parametrize(
    'after, said',
    [
        (OF_A_SESSION, 'InvalidArgumentError: indices[0] = 7 is not in [0, 3)'),
        (OF_AUTOGRAPH, "KeyError: 'no column'"),
        ('ValueError: one\ntwo\n', 'ValueError: one'),
        ('AssertionError\n', 'AssertionError'),
        ('KeyboardInterrupt\nsome other line\n', 'KeyboardInterrupt'),
        ('my.own.Error: ' + 'x' * 300, 'Error: ' + 'x' * 193 + '...'),
        (
            "AttributeError: no 'app'\ncompat: tf.app is of TensorFlow 1: use --tf1\n",
            'tf.app is of TensorFlow 1: use --tf1',
        ),
        ('', ''),
    ],
)
def test_last_words(after, said):
    assert error_lines.last_words((BEFORE + after).splitlines()) == said


def test_without_a_traceback_there_are_none():
    assert error_lines.last_words(['compat: TF 1 names', 'boom']) == '' == error_lines.last_words([])
