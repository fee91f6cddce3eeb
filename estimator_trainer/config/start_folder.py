"""The folder in which the command was started: relative paths of its flags lie there, whatever the code of a job does.

Few flags need it. The others are made absolute before the job is loaded (trainer_config.py). Those of data files keep
their text, which may be several globs, and which config.json keeps.
"""

import contextlib
import os
from collections.abc import Iterator

_left = ''  # the folder before the code of a job changed it


@contextlib.contextmanager
def remembered() -> Iterator[None]:
    """What is within may change the current folder."""
    global _left
    before = os.getcwd()
    try:
        yield
    finally:
        _left = _left or (before if _current() != before else '')


def path() -> str:
    """The folder of the start; '' if it is the current one."""
    return _left


def _current() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return ''
