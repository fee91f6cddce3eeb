"""The one place that removes files and folders. Each function takes a proof that what it removes is ours.

    Named(pattern)    only we give such names, in the folder where this is asked
    Written(paths)    this process has written these, or a file of ours lists them
    Marked(folder)    what is below a folder that holds our mark, which `claim` wrote while it was empty

A folder that the user named is the user's: what is in it stays, unless one of these covers it.
"""

import contextlib
import os
import re
from collections.abc import Collection
from typing import Protocol

MARK = '.estimator_trainer'
_MARK_TEXT = 'estimator_trainer made this folder, and removes what is in it. Keep other files elsewhere.\n'


class NotOurs(OSError):
    """Nothing proves that this is ours, so it stays. The text names it."""

    def __init__(self, path: str):
        super().__init__(f'{path} is not a file of this program, and stays')


class Proof(Protocol):
    def covers(self, path: str) -> bool:
        """Whether this is ours."""


class Named:
    """What has a name that only we give: the pattern matches the whole last part of the path."""

    def __init__(self, pattern: str):
        self._matches = re.compile(pattern).fullmatch

    def covers(self, path: str) -> bool:
        return self._matches(os.path.basename(path.rstrip(os.sep))) is not None  # glob ends folders with a separator


class Written:
    """What is in a list of ours."""

    def __init__(self, paths: Collection[str]):
        self._paths = {os.path.abspath(path) for path in paths}

    def covers(self, path: str) -> bool:
        return os.path.abspath(path) in self._paths


class Marked:
    """The folder itself, and all below it, if the mark is in it."""

    def __init__(self, folder: str, mark: str = MARK):
        self._folder, self._mark = os.path.realpath(folder), mark

    def covers(self, path: str) -> bool:
        parent, name = os.path.split(os.path.abspath(path))
        real_path = os.path.join(os.path.realpath(parent), name)  # of a link: the link itself
        below = real_path == self._folder or real_path.startswith(os.path.join(self._folder, ''))
        return below and os.path.isfile(os.path.join(self._folder, self._mark))


def is_marked(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, MARK))


def claim(folder: str, mode: int = 0o777) -> str:
    """Makes a folder with our mark in it, or marks an empty one. Its path.

    Raises:
        NotOurs: somebody else's files are in it.
        OSError: it cannot be made.
    """
    os.makedirs(folder, mode=mode, exist_ok=True)
    if not is_marked(folder):
        if os.listdir(folder):
            if is_marked(folder):  # another process has just marked it
                return folder
            raise NotOurs(folder)
        mark(folder)
    return folder


def mark(folder: str) -> None:
    """What is in the folder is ours already. Raises OSError."""
    with contextlib.suppress(FileExistsError), open(os.path.join(folder, MARK), 'x', encoding='utf-8') as file:
        file.write(_MARK_TEXT)


def file(path: str, proof: Proof) -> bool:
    """Removes a file, or a link but not what it leads to. Whether there was one.

    Raises:
        NotOurs: the proof does not cover it.
        OSError: it cannot be removed.
    """
    if not proof.covers(path):
        raise NotOurs(path)
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def empty_folder(path: str, proof: Proof) -> None:
    """Removes a folder if nothing is in it but our mark. Raises as `file`, and OSError if something is in it."""
    if not proof.covers(path):
        raise NotOurs(path)
    if os.listdir(path) == [MARK]:
        os.unlink(os.path.join(path, MARK))
    os.rmdir(path)


def tree(path: str, proof: Proof) -> None:
    """Removes a folder with all that is in it; files that cannot be removed stay.

    Raises:
        NotOurs: the proof does not cover it, or it is a link.
    """
    import shutil

    if not os.path.lexists(path):
        return
    if os.path.islink(path) or not proof.covers(path):
        raise NotOurs(path)
    shutil.rmtree(path, ignore_errors=True)


def files_in(folder: str, proof: Proof) -> None:
    """Removes the files of a folder that the proof covers. Those that cannot be removed stay, and so do folders."""
    with contextlib.suppress(FileNotFoundError):
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            if proof.covers(path):
                with contextlib.suppress(OSError):
                    file(path, proof)


def files_below(path: str, proof: Proof) -> None:
    """`files_in` of a folder and of all folders below it, which are removed as well if nothing is left in them. A link
    is not followed."""
    if not os.path.islink(path):
        for folder, _, _ in os.walk(path, topdown=False):
            files_in(folder, proof)
            with contextlib.suppress(OSError):
                os.rmdir(folder)
