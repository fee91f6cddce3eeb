"""What happens where a TensorFlow of the future lacks a name that a file of `compat` uses.

If nothing that is computed depends on it, the run goes on without, and one line says so (`or_without`). Else the run is
refused in one sentence (`refusal`).
"""

from __future__ import annotations

import contextlib
import logging
import os
import pathlib
import re
import traceback
import types
from collections.abc import Iterator

NEWEST = '2.22'  # the newest TensorFlow that setup.py allows

_ERRORS = (AttributeError, ImportError)
_LIBRARIES = ('tensorflow', 'keras', 'tf_keras', 'tensorflow_estimator')
_BETWEEN = ('hook.py', 'lacks.py')  # a patch and what it asks for
_COMPAT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '')
_log = logging.getLogger('estimator_trainer')
_NOT_IN_MODULE = re.compile("cannot import name '(.+?)'")
left_out: set[str] = set()  # patches that this process does without; each is said once


@contextlib.contextmanager
def or_without() -> Iterator[None]:
    """Leaves its block where TensorFlow lacks a name that is used there, and says so once.

    Only for what changes no number, and no part of it may be done before the names are known to be there. The docstring
    of the patch that has used the name says what happens without it.
    """
    try:
        yield
    except _ERRORS as error:
        if not _is_of_a_library(error):
            raise
        say_without(_described(error), _patch(error))


@contextlib.contextmanager
def told_as(kind: type[Exception]) -> Iterator[None]:
    """Raises `kind` with a text for the user where TensorFlow lacks a name that is used in the block."""
    try:
        yield
    except _ERRORS as error:
        if not _is_of_a_library(error):
            raise
        raise kind(_described(error)) from error


class Refused(Exception):
    """A sentence for the user: what is lacking would change what is computed."""


@contextlib.contextmanager
def refused() -> Iterator[None]:
    """Raises `Refused` where TensorFlow lacks a name that is used in the block: other numbers would be computed."""
    try:
        yield
    except _ERRORS as error:
        if not _is_of_a_library(error):
            raise
        raise Refused(_sentence(error)) from error


def say_without(lack: str, patch: str) -> None:
    """Says once that the run goes on without a patch, which has this name in the table, and why."""
    if patch not in left_out:
        left_out.add(patch)
        _log.warning('%s. The run goes on; what this means: %s', lack, _without(patch))


def refusal(error: BaseException) -> str | None:
    """What the user is told in place of an exception that a file of `compat` has met because a name is missing; None:
    it is another exception."""
    if isinstance(error, Refused):
        return str(error)
    if not isinstance(error, _ERRORS) or not _is_of_a_library(error):
        return None
    asked = [file for file, _ in _frames(error)]
    return _sentence(error) if asked and asked[-1].startswith(_COMPAT) else None


def _frames(error: BaseException) -> list[tuple[str, int]]:
    """(file, line) of all that has been called, without Python's own importer."""
    frames = traceback.extract_tb(error.__traceback__)
    return [
        (os.path.abspath(each.filename), each.lineno or 0) for each in frames if not each.filename.startswith('<frozen')
    ]


def _sentence(error: AttributeError | ImportError) -> str:
    return f'{_described(error)}, and without it: {_without(_patch(error))}. Install TensorFlow 2.15 to {NEWEST}.'


def _described(error: AttributeError | ImportError) -> str:
    """Such as "TensorFlow 2.23.0 has no tensorflow.python.framework.ops.get_name_scope"."""
    if isinstance(error, ImportError):
        name = '.'.join(filter(None, (error.name, *_NOT_IN_MODULE.findall(str(error)))))
    else:
        name = f'{_owner(error)}.{error.name}'
    return f'TensorFlow {_version()} has no {name}'


def _version() -> str:
    from estimator_trainer import compat

    return compat.installed(*compat.DISTRIBUTIONS) or '.'.join(map(str, compat.tensorflow_version()))


def _owner(error: AttributeError) -> str:
    """The module, or the class of a library, that lacks an attribute."""
    if isinstance(error.obj, types.ModuleType):
        return error.obj.__name__
    kind = error.obj if isinstance(error.obj, type) else type(error.obj)
    kind = next((each for each in kind.__mro__ if _is_name_of_a_library(each.__module__)), kind)
    return f'{kind.__module__}.{kind.__qualname__}'


def _is_of_a_library(error: AttributeError | ImportError) -> bool:
    return _is_name_of_a_library(error.name if isinstance(error, ImportError) else _owner(error))


def _is_name_of_a_library(name: str | None) -> bool:
    return str(name).partition('.')[0] in _LIBRARIES


def _patch(error: BaseException) -> str:
    """The name of the patch in whose code an error has come up; ''."""
    from estimator_trainer.compat.patches import table

    for file, line in reversed(_frames(error)):
        if file.startswith(_COMPAT) and os.path.basename(file) not in _BETWEEN:
            row = table.row_at(pathlib.Path(file), line)
            if row:
                return row.name
    return ''


def _without(patch: str) -> str:
    from estimator_trainer.compat.patches import table

    return next((row.without for row in table.rows() if row.name == patch), 'it is not known')
